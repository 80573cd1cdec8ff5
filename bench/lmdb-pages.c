/* Measures what LMDB writes for changes as a chainstate makes them, and what verified
 * checksums cost a read. Prints Markdown tables.
 *
 * usage: lmdb-pages DIR [RECORDS]     (make bench-lmdb; DIR on the disk in question)
 *   RECORDS  records there are all the time, default 600000
 *
 * A record is a coin's: key 36 bytes, as good as random; value 20 to 59 bytes. A change
 * deletes one or adds one, alternating. Pages are counted in the file after the commit:
 * those that bear the number of its transaction. WRITEMAP is without checksums, which are
 * refused with it.
 */
#include "../tests/unit/optional_engine/model.h"

#include <sys/mman.h>
#include <time.h>

#define KEYSIZE 36
#define MAP (8ull << 30)

static unsigned char (*keys)[KEYSIZE];
static unsigned records;
static uint64_t serial;

static double seconds_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Commits wait for the disk, reads here for nothing but the processor. */
#define NOW() seconds_of(CLOCK_MONOTONIC)
#define CPU() seconds_of(CLOCK_THREAD_CPUTIME_ID)

static void new_key(unsigned char *key)
{
	serial++;
	key[0] = 'C';
	for (unsigned i = 0; i < 4; i++) {
		uint64_t w = mix(serial * 4 + i);
		memcpy(key + 1 + 8 * i, &w, 8);
	}
	memset(key + 33, 0, 3);
}

static void put(MDB_txn *txn, MDB_dbi dbi, unsigned char *key, unsigned flags)
{
	unsigned char value[60];
	MDB_val k = {KEYSIZE, key}, v = {20 + key[5] % 40, value};
	memset(value, key[6], sizeof(value));
	MUST(mdb_put(txn, dbi, &k, &v, flags));
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, KEYSIZE);
}

static MDB_env *open_at(const char *path, unsigned flags, int sums)
{
	MDB_env *env;

	MUST(mdb_env_create(&env));
	if (sums)
		MUST(mdb_env_set_checksum(env, crc32c, 4));
	MUST(mdb_env_set_mapsize(env, MAP));
	MUST(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS | flags, 0600));
	return env;
}

/* A new environment with all records. They come in no order, in batches of a block's
 * size, as a node that has run for a while has them: pages are about two thirds full.
 */
static MDB_env *fill(const char *path, unsigned flags, int sums, MDB_dbi *dbi)
{
	MDB_env *env;
	MDB_txn *txn;

	env_remove(path);
	serial = 0;
	env = open_at(path, flags, sums);
	MUST(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	for (unsigned i = 0; i < records;) {
		MUST(mdb_txn_begin(env, NULL, 0, &txn));
		MUST(mdb_dbi_open(txn, NULL, 0, dbi));
		for (unsigned n = 0; n < 5000 && i < records; n++, i++) {
			new_key(keys[i]);
			put(txn, *dbi, keys[i], 0);
		}
		MUST(mdb_txn_commit(txn));
	}
	MUST(mdb_env_set_flags(env, MDB_NOSYNC, 0));
	MUST(mdb_env_sync(env, 1));
	return env;
}

/* Pages in the file that transaction `id` wrote. The header is that of mdb.c: number of
 * the page, transaction, 2 bytes, flags, and for overflow pages how many there are.
 */
static size_t pages_of(MDB_env *env, size_t id)
{
	size_t count = 0, step, size;
	MDB_envinfo info;
	unsigned char *map;
	int fd;

	MUST(mdb_env_info(env, &info));
	MUST(mdb_env_get_fd(env, &fd));
	size = (info.me_last_pgno + 1) * 4096;
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fatal("mmap", errno);
	for (size_t at = 2; at < size / 4096; at += step) {
		const unsigned char *page = map + at * 4096;
		uint64_t pgno, txnid;
		uint16_t flags;
		uint32_t run;
		memcpy(&pgno, page, 8);
		memcpy(&txnid, page + 8, 8);
		memcpy(&flags, page + 18, 2);
		memcpy(&run, page + 20, 4);
		step = 1;
		if (pgno != at || txnid != id)
			continue;
		if (flags & 4)
			step = run;
		count += step;
	}
	munmap(map, size);
	return count;
}

struct change {
	unsigned char key[KEYSIZE];
	unsigned char add;
};

static void batches(const char *path, unsigned changes, int sorted, int writemap)
{
	struct change *list = malloc(changes * sizeof(*list));
	unsigned rounds = changes > 10000 ? 5 : 12;
	size_t pages = 0;
	double seconds = 0;
	MDB_dbi dbi;
	MDB_env *env = fill(path, writemap ? MDB_WRITEMAP : 0, !writemap, &dbi);
	MDB_txn *txn;

	for (unsigned round = 0; round < rounds; round++) {
		double start;
		size_t id;
		for (unsigned i = 0; i < changes; i++) {
			list[i].add = i % 2;
			if (list[i].add) {
				new_key(list[i].key);
				memcpy(keys[records], list[i].key, KEYSIZE);
				records++;
			} else {
				unsigned victim = (unsigned)(mix(serial * 3 + i) % records);
				records--;
				memcpy(list[i].key, keys[victim], KEYSIZE);
				memcpy(keys[victim], keys[records], KEYSIZE);
			}
		}
		if (sorted)
			qsort(list, changes, sizeof(*list), by_key);
		start = NOW();
		MUST(mdb_txn_begin(env, NULL, 0, &txn));
		id = mdb_txn_id(txn);
		for (unsigned i = 0; i < changes; i++) {
			MDB_val k = {KEYSIZE, list[i].key};
			if (list[i].add) {
				put(txn, dbi, list[i].key, 0);
			} else {
				/* one of this batch may be deleted before it is added */
				int rc = mdb_del(txn, dbi, &k, NULL);
				if (rc && rc != MDB_NOTFOUND)
					fatal("mdb_del", rc);
			}
		}
		MUST(mdb_txn_commit(txn));
		/* the first ones find no free pages yet */
		if (round < 2)
			continue;
		seconds += NOW() - start;
		pages += pages_of(env, id);
	}
	rounds -= 2;
	printf("| %u | %s | %s | %.2f | %.1f | %.0f |\n", changes, sorted ? "sorted" : "random",
	       writemap ? "WRITEMAP" : "checksums", (double)pages / rounds / changes,
	       (double)pages / rounds / 256, seconds / rounds * 1000);
	fflush(stdout);
	mdb_env_close(env);
	free(list);
}

static double gets(MDB_env *env, MDB_dbi dbi)
{
	const unsigned n = 400000;
	double start = CPU();
	MDB_txn *txn;

	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	for (unsigned i = 0; i < n; i++) {
		MDB_val k = {KEYSIZE, keys[mix(i) % records]}, v;
		MUST(mdb_get(txn, dbi, &k, &v));
	}
	mdb_txn_abort(txn);
	return (CPU() - start) / n * 1e6;
}

static double walk(MDB_env *env, MDB_dbi dbi)
{
	double start = CPU();
	MDB_cursor *cursor;
	MDB_txn *txn;
	MDB_val k, v;

	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	MUST(mdb_cursor_open(txn, dbi, &cursor));
	while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0)
		;
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	return (CPU() - start) / records * 1e6;
}

static double begins(MDB_env *env)
{
	const unsigned n = 400000;
	double start = CPU();
	MDB_txn *txn;

	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	for (unsigned i = 0; i < n; i++) {
		mdb_txn_reset(txn);
		MUST(mdb_txn_renew(txn));
	}
	mdb_txn_abort(txn);
	return (CPU() - start) / n * 1e6;
}

static void reads(const char *path)
{
	for (int sums = 0; sums < 2; sums++) {
		MDB_stat st;
		MDB_dbi dbi;
		MDB_env *env = fill(path, 0, sums, &dbi);
		double get, step, begin;
		gets(env, dbi);
		get = gets(env, dbi);
		step = walk(env, dbi);
		begin = begins(env);
		MUST(mdb_env_stat(env, &st));
		printf("| %s | %u | %.2f | %.3f | %.3f |\n", sums ? "yes" : "no", st.ms_depth, get,
		       step, begin);
		fflush(stdout);
		mdb_env_close(env);
	}
}

int main(int argc, char **argv)
{
	static const unsigned sizes[] = {500, 5000, 50000};
	const char *path;

	records = argc == 3 ? (unsigned)atoi(argv[2]) : 600000;
	if (argc < 2 || argc > 3 || records < 1000) {
		fprintf(stderr, "usage: lmdb-pages DIR [RECORDS]\n");
		return 2;
	}
	path = join(argv[1], "lmdb-pages.mdb");
	crc_init();
	keys = malloc((records + 1) * sizeof(*keys));
	if (!keys)
		fatal("malloc", ENOMEM);

	printf("%u records\n\n", records);
	printf("| changes per commit | order | file | pages written per change | MiB per commit |"
	       " ms per commit |\n|---:|---|---|---:|---:|---:|\n");
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (int writemap = 0; writemap < 2; writemap++)
			for (int sorted = 0; sorted < 2; sorted++)
				batches(path, sizes[s], sorted, writemap);
	printf("\n| checksums | levels | µs per get | µs per cursor step | µs per begin |\n"
	       "|---|---:|---:|---:|---:|\n");
	reads(path);
	env_remove(path);
	return 0;
}
