#include "model.h"

#include "executor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t model_random(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

static uint64_t chance;
static uint32_t now, latest_era, block_count; /* now: the launch's own era */

uint32_t model_era(void)
{
        return ++latest_era;
}

/* ------------------------------------------------------------------------------------------------
 * Words
 * ---------------------------------------------------------------------------------------------- */
#define SLOT_BITS 20
#define SLOTS ((size_t)1 << SLOT_BITS) /* of words that are posted in a launch */
#define KEPT 8                  /* values that are kept of a word: all blocks have seen older ones by then */

typedef struct word {
        const uint64_t *at;
        uint64_t value[KEPT];
        uint32_t posts;  /* so many values, the one that the launch found included */
        uint32_t slot;
        uint32_t poster; /* the only block that has seen more than the first value, until there is */
        uint32_t *seen;  /* by each block: the number of the latest value */
} word;

static word words[SLOTS / 2];
static size_t word_count;
static uint32_t slot[SLOTS]; /* a word's number plus one */

static uint32_t *slot_of(const uint64_t *p)
{
        size_t i = (size_t)(((uintptr_t)p >> 3) * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
        while (slot[i] && words[slot[i] - 1].at != p)
                i = (i + 1) % SLOTS;
        return &slot[i];
}

/* Most words are never watched: those that are have room for all who may. */
static uint32_t *seen_of(word *w)
{
        if (!w->seen) {
                w->seen = calloc(block_count, sizeof *w->seen);
                if (!w->seen)
                        abort();
                w->seen[w->poster] = w->posts - 1;
        }
        return w->seen;
}

static void forget_pages(void);

void model_begin(uint64_t seed, uint32_t blocks)
{
        forget_pages();
        for (size_t i = 0; i < word_count; i++) {
                free(words[i].seen);
                slot[words[i].slot] = 0;
        }
        word_count = 0;
        chance = seed;
        block_count = blocks;
        now = model_era();
}

static uint32_t oldest(word *w, int64_t block)
{
        const uint32_t kept = w->posts > KEPT ? w->posts - KEPT : 0, *seen = seen_of(w);
        return seen[block] > kept ? seen[block] : kept;
}

uint64_t model_watch(int64_t block, const uint64_t *p)
{
        const uint32_t *found = slot_of(p);
        if (!*found)
                return *p;
        word *w = &words[*found - 1];
        const uint32_t from = oldest(w, block), late = w->posts - 1 - from;
        const uint64_t draw = model_random(&chance);
        /* Half of the time the latest, so that all is seen in the end. */
        w->seen[block] = draw & 1 ? w->posts - 1 : from + (uint32_t)(draw >> 8) % (late + 1);
        return w->value[w->seen[block] % KEPT];
}

void model_post(int64_t block, uint64_t *p, uint64_t v)
{
        uint32_t *found = slot_of(p);
        if (!*found) {
                if (word_count == SLOTS / 2)
                        abort();
                words[word_count] = (word){.at = p, .value = {*p}, .posts = 1, .slot = (uint32_t)(found - slot), .poster = (uint32_t)block};
                *found = (uint32_t)++word_count;
        }
        word *w = &words[*found - 1];
        if (w->poster != (uint32_t)block)
                seen_of(w);
        *p = v; /* the latest, for whom this launch is over */
        w->value[w->posts % KEPT] = v;
        if (w->seen)
                w->seen[block] = w->posts;
        w->posts++;
}

/* ------------------------------------------------------------------------------------------------
 * Plain accesses
 * ---------------------------------------------------------------------------------------------- */
/* Who has made accesses that nothing orders among themselves: one thread, or some of a warp, of a block, of several blocks. */
enum { ONE, WARP, BLOCK, GRID };
typedef struct some {
        uint32_t era, block, cluster, barriers, syncs, arrived;
        uint16_t thread;
        uint8_t kind;
        bool marks; /* all of them are writes that may come at once */
} some;

/* A byte: its last writes, and its reads since. */
typedef struct byte {
        some writes, reads;
        uint32_t word; /* the launch in which it was one of a word */
} byte;

#define PAGE ((uintptr_t)1024)
#define PAGES ((size_t)1 << 14)

typedef struct page {
        uintptr_t number;
        byte *bytes;
} page;
static page pages[PAGES];
static size_t page_count;

/* Now and then: memory that launches had before is of no use to this one. */
static void forget_pages(void)
{
        if (page_count < PAGES / 8)
                return;
        for (size_t i = 0; i < PAGES; i++)
                free(pages[i].bytes);
        memset(pages, 0, sizeof pages);
        page_count = 0;
}

static byte *byte_of(uintptr_t p)
{
        const uintptr_t number = p / PAGE;
        size_t i = (size_t)(number * 0x9e3779b97f4a7c15u >> 50);
        while (pages[i].bytes && pages[i].number != number)
                i = (i + 1) % PAGES;
        if (!pages[i].bytes) {
                if (++page_count > PAGES / 2)
                        abort();
                pages[i] = (page){number, calloc(PAGE, sizeof(byte))};
                if (!pages[i].bytes)
                        abort();
        }
        return &pages[i].bytes[p % PAGE];
}

static bool ordered(const some *s, const model_who *w, uint32_t era)
{
        if (s->era != era)
                return true; /* another launch's, or of a block that had this memory before */
        if (s->block == w->block) {
                const bool same_warp = s->thread / 32 == w->thread / 32;
                if (s->kind == ONE && s->thread == w->thread)
                        return true;
                if (s->kind <= BLOCK && s->barriers < w->barriers)
                        return true;
                if (s->kind <= WARP && same_warp && s->syncs < w->syncs)
                        return true;
        }
        return s->kind <= BLOCK && s->cluster == w->cluster && s->arrived < w->waited;
}

/* The access joins those that it is not ordered behind, or takes their place. */
static void join(some *s, const model_who *w, uint32_t era)
{
        const bool alone = ordered(s, w, era);
        const int apart = s->block != w->block ? GRID : s->thread / 32 != w->thread / 32 ? BLOCK : WARP, before = s->kind;
        const uint32_t arrived = !alone && s->arrived > w->arrived ? s->arrived : w->arrived;
        *s = (some){era, w->block, w->cluster, w->barriers, w->syncs, arrived, (uint16_t)w->thread, ONE, false};
        if (!alone)
                s->kind = (uint8_t)(apart > before ? apart : before);
}

static void complain(const char *now_did, const char *before, const some *s, const model_who *w)
{
        static char text[200];
        static const char *const more[] = {"", " and others of its warp", " and others of its block", " and other blocks"};
        snprintf(text, sizeof text, "a race in %s memory: a thread %s what thread %u of block %u%s %s, and nothing orders the two", w->era ? "shared" : "global", now_did,
                 s->thread, s->block, more[s->kind], before);
        exec_fail(text);
}

static const char *counted, *counted_end;
static long reads;

void model_count(const void *from, size_t bytes)
{
        counted = from;
        counted_end = counted + bytes;
        reads = 0;
}

long model_reads(void)
{
        return reads;
}

void model_access(const model_who *w, const void *p, size_t bytes, int how)
{
        reads += how == MODEL_READ && (const char *)p >= counted && (const char *)p < counted_end;
        const uint32_t era = w->era ? w->era : now;
        byte *b = NULL;
        for (size_t i = 0; i < bytes; i++) {
                const uintptr_t at = (uintptr_t)p + i;
                b = i && at % PAGE ? b + 1 : byte_of(at);
                if (how == MODEL_WORD) {
                        if (b->writes.era == era || b->reads.era == era)
                                exec_fail("a word that blocks watch has had a plain access in this launch");
                        b->word = now;
                        continue;
                }
                if (b->word == now)
                        exec_fail("a plain access to a word that blocks watch");
                const bool after = ordered(&b->writes, w, era), beside = how == MODEL_MARK && b->writes.marks;
                if (!after && !beside)
                        complain(how == MODEL_READ ? "reads" : "writes", "wrote", &b->writes, w);
                if (how == MODEL_READ) {
                        join(&b->reads, w, era);
                        continue;
                }
                if (!ordered(&b->reads, w, era))
                        complain("writes", "read", &b->reads, w);
                join(&b->writes, w, era);
                b->writes.marks = how == MODEL_MARK;
                b->reads.era = 0;
        }
}

void exec_glance(void *to, const void *from, size_t bytes, int used)
{
        if (used)
                exec_access(from, bytes, MODEL_READ);
        memcpy(to, from, bytes);
}

void exec_mark(unsigned char *p)
{
        exec_access(p, 1, MODEL_MARK);
        *p = 1;
}

/* ------------------------------------------------------------------------------------------------
 * What compilers call before the accesses of a kernel compiled with -fsanitize=thread; the library of that name is not linked
 * ---------------------------------------------------------------------------------------------- */
#define CALLED(name, bytes, how)  \
        void __tsan_##name(void *p); \
        void __tsan_##name(void *p) { exec_access(p, bytes, how); }
#define SIZES(SIZE) SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)
#define SIZE(n)                                       \
        CALLED(read##n, n, MODEL_READ)                \
        CALLED(write##n, n, MODEL_WRITE)              \
        CALLED(unaligned_read##n, n, MODEL_READ)      \
        CALLED(unaligned_write##n, n, MODEL_WRITE)
SIZES(SIZE)

/* Not accesses: a library is loaded, a function begins and ends. */
void __tsan_init(void);
void __tsan_func_entry(void *from);
void __tsan_func_exit(void *from);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
        (void)from;
}

void __tsan_func_exit(void *from)
{
        (void)from;
}

void __tsan_read_range(void *p, long bytes);
void __tsan_write_range(void *p, long bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int v, size_t bytes);

void __tsan_read_range(void *p, long bytes)
{
        exec_access(p, (size_t)bytes, MODEL_READ);
}

void __tsan_write_range(void *p, long bytes)
{
        exec_access(p, (size_t)bytes, MODEL_WRITE);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
        exec_access(from, bytes, MODEL_READ);
        exec_access(to, bytes, MODEL_WRITE);
        return memcpy(to, from, bytes);
}

void *__tsan_memset(void *to, int v, size_t bytes)
{
        exec_access(to, bytes, MODEL_WRITE);
        return memset(to, v, bytes);
}
