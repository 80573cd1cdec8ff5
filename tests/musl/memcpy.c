/* Checks musl's memcpy() of patches/musl/0001 against the C library's memmove().
 *
 * Every size up to 600 with every distance below 40 between a source and a
 * destination before it, overlapping or not, which is what musl's memmove()
 * leaves to it; and every size up to 2,200 with buffers of their own, at 33
 * places. Bytes beside the copy must not change.
 * Output: the number of copies. Exit status: 0 right, 1 wrong, with the case.
 */
#include <stdio.h>
#include <string.h>

void *__memcpy_fwd(void *dest, const void *src, size_t n);

enum { SIZE = 3000 };
static unsigned char source[SIZE], copied[SIZE], expected[SIZE];
static unsigned long copies;

static int wrong(size_t to, const unsigned char *from, const unsigned char *from_expected, size_t n)
{
	memmove(expected + to, from_expected, n);
	++copies;
	if (__memcpy_fwd(copied + to, from, n) == copied + to &&
	    !memcmp(copied, expected, to + n + 200)) return 0;
	printf("%zu bytes to %zu are wrong\n", n, to);
	return 1;
}

int main(void)
{
	for (size_t i = 0; i < SIZE; i++) source[i] = (unsigned char)(i * 167 + (i >> 8));
	for (size_t n = 0; n <= 600; n++) {
		for (size_t to = 0; to < 40; to++) {
			for (size_t distance = 0; distance < 40; distance++) {
				memcpy(copied, source, 1000);
				memcpy(expected, source, 1000);
				if (wrong(to, copied + to + distance, expected + to + distance, n)) return 1;
			}
		}
	}
	for (size_t n = 0; n <= 2200; n++) {
		for (size_t to = 0; to < 33; to++) {
			const size_t from = to * 7 % 32;
			if (wrong(to, source + from, source + from, n)) return 1;
		}
	}
	printf("%lu\n", copies);
	return 0;
}
