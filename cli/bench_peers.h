/* bench_peers.h: what the library is compared with: moving the same bytes and nothing else. */
#ifndef SCANFOLD_BENCH_PEERS_H
#define SCANFOLD_BENCH_PEERS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* The time of a clock of clock_gettime, in seconds. */
double seconds_by(clockid_t clock);

/* memcpy, with one piece for each thread. */
void copy_bytes(void *to, const void *from, size_t bytes, int threads);

/* Reads every byte; each thread reads its piece as `streams` parts at once. Which number is fastest
 * depends on the CPU. */
enum { READ_WAYS = 4 };
extern const int read_streams[READ_WAYS];
void read_bytes(const void *from, size_t bytes, int streams, int threads);

/* Fills memory with random bits: every 8 bytes are (random & keep) | set. */
void fill_bytes(void *to, size_t bytes, uint64_t keep, uint64_t set, int threads);

#endif /* SCANFOLD_BENCH_PEERS_H */
