/* A small LMDB environment whose every byte of data can be told from keys alone.
 *
 * For the programs of this folder: a checksum function (CRC32C), values derived from a
 * key and the transaction that wrote them, and the comparison of an environment with
 * what it should contain. Transactions are numbered as LMDB numbers them, from 1.
 */
#ifndef CAIRN_LMDB_MODEL_H
#define CAIRN_LMDB_MODEL_H

#include <lmdb.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEYS 180
#define MAXVALUE 12000
#define FLAGS (MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC)

/* For each key the transaction that wrote its value, 0 if there is none. */
typedef struct {
	unsigned by[KEYS];
} state;

static inline void fatal(const char *what, int rc)
{
	fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
	exit(2);
}

#define MUST(call)                                                                          \
	do {                                                                                \
		int must_rc = (call);                                                       \
		if (must_rc)                                                                \
			fatal(#call, must_rc);                                              \
	} while (0)

/* ---- checksum ---- */

static uint32_t crc_table[8][256];

static inline void crc_init(void)
{
	for (unsigned i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 8; bit++)
			c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0);
		crc_table[0][i] = c;
	}
	for (unsigned i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			crc_table[k][i] =
			    (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 255];
}

static inline uint32_t crc_portable(uint32_t c, const unsigned char *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		w ^= c;
		c = 0;
		for (int k = 0; k < 8; k++)
			c ^= crc_table[7 - k][(w >> (8 * k)) & 255];
	}
	while (n--)
		c = crc_table[0][(c ^ *p++) & 255] ^ (c >> 8);
	return c;
}

#ifdef __x86_64__
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static inline uint32_t
crc_sse(uint32_t c, const unsigned char *p, size_t n)
{
	uint64_t c64 = c;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		c64 = _mm_crc32_u64(c64, w);
	}
	return crc_portable((uint32_t)c64, p, n);
}
#endif

static inline void crc32c(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	uint32_t c = ~0u;
	(void)key;
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		c = crc_sse(c, src->mv_data, src->mv_size);
	else
#endif
		c = crc_portable(c, src->mv_data, src->mv_size);
	c = ~c;
	memcpy(dst->mv_data, &c, sizeof(c));
}

/* ---- contents ---- */

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The value of a key written by a transaction: some on overflow pages, one or several. */
static inline size_t value_of(unsigned key, unsigned by, unsigned char *out)
{
	uint64_t seed = mix(key * 1000003ull + by);
	size_t size = key % 60 == 5 ? 2500 + seed % 7000 : 20 + seed % 70;
	for (size_t i = 0; i < size; i += 8) {
		uint64_t w = seed ^ (i * 0x9e3779b97f4a7c15u);
		memcpy(out + i, &w, 8);
	}
	return size;
}

static inline void key_of(unsigned key, unsigned char out[8])
{
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)(i < 4 ? 'k' : key >> (8 * (7 - i)));
}

static inline int value_is(const MDB_val *v, unsigned key, unsigned by)
{
	static unsigned char want[MAXVALUE];
	size_t size = value_of(key, by, want);
	return v->mv_size == size && memcmp(v->mv_data, want, size) == 0;
}

/* ---- environment ---- */

static inline int env_open(MDB_env **env, const char *path, unsigned flags)
{
	int rc;
	if ((rc = mdb_env_create(env)) != 0)
		return rc;
	MUST(mdb_env_set_checksum(*env, crc32c, 4));
	MUST(mdb_env_set_mapsize(*env, 4u << 20));
	MUST(mdb_env_set_maxdbs(*env, 2));
	if ((rc = mdb_env_open(*env, path, FLAGS | flags, 0600)) != 0)
		mdb_env_close(*env);
	return rc;
}

/* Transaction number `by`: deletes about one key in six, writes about one in four. In the
 * first transaction it writes more, so that all following ones free pages.
 */
static inline int change(MDB_env *env, state *s, unsigned by)
{
	static unsigned char data[MAXVALUE];
	unsigned char name[8];
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	if ((rc = mdb_txn_begin(env, NULL, 0, &txn)) != 0)
		return rc;
	if (mdb_txn_id(txn) != by) {
		fprintf(stderr, "transaction %zu, expected %u\n", mdb_txn_id(txn), by);
		exit(3);
	}
	rc = mdb_dbi_open(txn, "coins", MDB_CREATE, &dbi);
	for (unsigned key = 0; key < KEYS && rc == 0; key++) {
		unsigned what = mix(by * 7919ull + key) % 12;
		MDB_val k = {8, name}, v = {0, data};
		key_of(key, name);
		if (by == 1 ? what < 8 : what < 3) {
			v.mv_size = value_of(key, by, data);
			rc = mdb_put(txn, dbi, &k, &v, 0);
			s->by[key] = by;
		} else if (by > 1 && what < 5 && s->by[key]) {
			rc = mdb_del(txn, dbi, &k, NULL);
			s->by[key] = 0;
		}
	}
	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

enum verdict { FINE, DETECTED, WRONG };

/* Compares all records, by cursor and some again by key; `salt` says which ones. */
static inline enum verdict compare(MDB_txn *txn, const state *s, unsigned salt, int *rc)
{
	MDB_cursor *cursor = NULL;
	MDB_val k, v;
	MDB_dbi dbi;
	unsigned next = 0;
	unsigned char name[8];
	enum verdict result = DETECTED;

	if ((*rc = mdb_dbi_open(txn, "coins", 0, &dbi)) != 0)
		return *rc == MDB_NOTFOUND ? WRONG : DETECTED;
	if ((*rc = mdb_cursor_open(txn, dbi, &cursor)) != 0)
		return DETECTED;
	while ((*rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
		while (next < KEYS && !s->by[next])
			next++;
		if (next < KEYS)
			key_of(next, name);
		if (next == KEYS || k.mv_size != 8 || memcmp(k.mv_data, name, 8) != 0 ||
		    !value_is(&v, next, s->by[next])) {
			result = WRONG;
			goto done;
		}
		next++;
	}
	if (*rc != MDB_NOTFOUND)
		goto done;
	while (next < KEYS && !s->by[next])
		next++;
	if (next != KEYS) {
		result = WRONG;
		goto done;
	}
	for (unsigned i = 0; i < 24; i++) {
		unsigned key = (unsigned)(mix(salt * 64ull + i) % KEYS);
		k.mv_size = 8;
		k.mv_data = name;
		key_of(key, name);
		*rc = mdb_get(txn, dbi, &k, &v);
		if (*rc && *rc != MDB_NOTFOUND)
			goto done;
		if ((*rc == MDB_NOTFOUND) != !s->by[key] || (!*rc && !value_is(&v, key, s->by[key]))) {
			result = WRONG;
			goto done;
		}
	}
	*rc = 0;
	result = FINE;
done:
	mdb_cursor_close(cursor);
	return result;
}

/* As compare(), in a transaction of its own that must be number `by`. */
static inline enum verdict compare_now(MDB_env *env, const state *s, unsigned by, unsigned salt,
				       int *rc)
{
	MDB_txn *txn;
	enum verdict result;

	if ((*rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) != 0)
		return DETECTED;
	result = mdb_txn_id(txn) == by ? compare(txn, s, salt, rc) : WRONG;
	mdb_txn_abort(txn);
	return result;
}

/* ---- files ---- */

typedef struct {
	unsigned char *data;
	size_t size;
} image;

static inline image image_read(const char *path)
{
	image im;
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		fatal(path, errno);
	im.size = (size_t)st.st_size;
	im.data = malloc(im.size);
	if (!im.data || pread(fd, im.data, im.size, 0) != (ssize_t)im.size)
		fatal(path, errno);
	close(fd);
	return im;
}

static inline image image_copy(image from)
{
	image im = {malloc(from.size), from.size};
	if (!im.data)
		fatal("malloc", ENOMEM);
	memcpy(im.data, from.data, from.size);
	return im;
}

static inline void image_write(const char *path, image im)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)im.size) ||
	    pwrite(fd, im.data, im.size, 0) != (ssize_t)im.size)
		fatal(path, errno);
	close(fd);
}

/* A path that lives as long as the program. */
static inline const char *join(const char *dir, const char *name)
{
	char *path = malloc(strlen(dir) + strlen(name) + 2);
	sprintf(path, "%s/%s", dir, name);
	return path;
}

static inline void env_remove(const char *path)
{
	char lock[4096];
	snprintf(lock, sizeof(lock), "%s-lock", path);
	unlink(path);
	unlink(lock);
}

#endif
