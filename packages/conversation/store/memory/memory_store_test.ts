import { inMemory } from "../like_memory_fixture_test.ts";
import { testStore } from "../store_suite_fixture_test.ts";

testStore("memoryStore()", inMemory);
