import { testLikeMemory } from "../../../packages/conversation/store/like_memory_fixture_test.ts";
import { testSharedStore } from "../../../packages/conversation/store/shared_suite_fixture_test.ts";
import { testStore } from "../../../packages/conversation/store/store_suite_fixture_test.ts";
import { startPostgres } from "../postgres.ts";
import { inOneDatabase, inPostgres, sharedInPostgres } from "./store.ts";

const postgres = await startPostgres();

testStore("openPostgresStore()", inPostgres(postgres));
testSharedStore("openPostgresStore()", sharedInPostgres(postgres));
testLikeMemory("openPostgresStore()", inOneDatabase(postgres));
