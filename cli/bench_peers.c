/* bench_peers.c: copies, reads and fills, on as many threads as the library uses. */
#include "bench_peers.h"

#include "cpu/pool.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

const int read_streams[READ_WAYS] = { 1, 2, 4, 8 };

double seconds_by(clockid_t clock)
{
        struct timespec now;
        clock_gettime(clock, &now);
        return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One thread's piece of the bytes; pieces begin at multiples of 64. */
struct piece {
        void (*work)(const struct piece *piece);
        unsigned char *to;
        const unsigned char *from;
        size_t begin, end;
        int streams;
        uint64_t keep, set;
};

static void cut_piece(struct piece *piece, size_t bytes, int part, int parts)
{
        size_t lines = (bytes + 63) / 64;
        size_t each = lines / (size_t)parts, more = lines % (size_t)parts;
        size_t p = (size_t)part;
        piece->begin = 64 * (p * each + (p < more ? p : more));
        piece->end = 64 * ((p + 1) * each + (p + 1 < more ? p + 1 : more));
        if (piece->end > bytes)
                piece->end = bytes;
}

/* The pieces of one call, one for each thread; a thread takes the next piece that is left. */
struct crew {
        struct piece all;
        size_t bytes;
        int pieces;
        atomic_int next;
};

static void work(void *arg, int worker)
{
        struct crew *crew = arg;
        (void)worker;
        for (int i; (i = atomic_fetch_add(&crew->next, 1)) < crew->pieces;) {
                struct piece mine = crew->all;
                cut_piece(&mine, crew->bytes, i, crew->pieces);
                mine.work(&mine);
        }
}

/* Uses the library's thread pool, so that the peer, like the library, starts no threads. */
static void share_out(struct piece all, size_t bytes, int threads)
{
        struct crew crew = { .all = all, .bytes = bytes, .pieces = threads };
        sf_pool_run(threads, work, &crew);
}

static void copy_piece(const struct piece *p)
{
        if (p->end > p->begin)
                memcpy(p->to + p->begin, p->from + p->begin, p->end - p->begin);
}

void copy_bytes(void *to, const void *from, size_t bytes, int threads)
{
        struct piece all = { .work = copy_piece, .to = to, .from = from };
        share_out(all, bytes, threads);
}

typedef uint64_t words __attribute__((vector_size(64)));

/* Uses wide registers if the CPU has them, so that memory, not the loop, limits the speed. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#  define EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#  define EACH_CPU
#endif

/* streams is a constant in every call, so the sums stay in registers. */
static inline __attribute__((always_inline)) void read_lines(const unsigned char *at, size_t lines,
                                                              const size_t streams)
{
        size_t each = lines / streams;
        words sum[8] = { { 0 } };
        for (size_t i = 0; i < each; i++) {
                for (size_t s = 0; s < streams; s++) {
                        words line;
                        memcpy(&line, at + 64 * (s * each + i), 64);
                        sum[s] += line;
                }
        }
        for (size_t i = each * streams; i < lines; i++) {
                words line;
                memcpy(&line, at + 64 * i, 64);
                sum[0] += line;
        }
        for (size_t s = 1; s < streams; s++)
                sum[0] += sum[s];
        /* Keeps the compiler from removing the reads. */
        __asm__ volatile("" : : "g"(&sum[0]) : "memory");
}

EACH_CPU static void read_piece(const struct piece *p)
{
        const unsigned char *at = p->from + p->begin;
        size_t lines = (p->end - p->begin) / 64;
        switch (p->streams) {
        case 1: read_lines(at, lines, 1); break;
        case 2: read_lines(at, lines, 2); break;
        case 4: read_lines(at, lines, 4); break;
        default: read_lines(at, lines, 8); break;
        }
}

void read_bytes(const void *from, size_t bytes, int streams, int threads)
{
        struct piece all = { .work = read_piece, .from = from, .streams = streams };
        share_out(all, bytes, threads);
}

static void fill_piece(const struct piece *p)
{
        uint64_t state = 0x9e3779b97f4a7c15u * (p->begin + 1);
        for (size_t i = p->begin; i < p->end; i += 8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                uint64_t word = (state & p->keep) | p->set;
                memcpy(p->to + i, &word, p->end - i < 8 ? p->end - i : 8);
        }
}

void fill_bytes(void *to, size_t bytes, uint64_t keep, uint64_t set, int threads)
{
        struct piece all = { .work = fill_piece, .to = to, .keep = keep, .set = set };
        share_out(all, bytes, threads);
}
