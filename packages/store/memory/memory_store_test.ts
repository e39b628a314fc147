import { inMemory, testStore } from "../store_suite_fixture_test.ts";

testStore("memoryStore()", inMemory);
