#include "cpu/lanes.h"

#include <string.h>

typedef struct shape {
        int32_t width, lane_bytes, permute_bytes;
} shape;

static void permute_set(sf_permute *p, const shape *s, int32_t lane, int32_t from)
{
        int32_t pieces = s->lane_bytes / s->permute_bytes;
        for (int32_t i = 0; i < pieces; i++) {
                /* NOLINTNEXTLINE(bugprone-misplaced-widening-cast): an index within a vector of at most 64 bytes */
                uint64_t index = (uint64_t)(from * pieces + i);
                /* little-endian, as every instruction set here is */
                memcpy(p->bytes + (lane * pieces + i) * s->permute_bytes, &index, (size_t)s->permute_bytes);
        }
}

static void choice_set(sf_choice *c, const shape *s, int32_t lane, bool on)
{
        memset(c->bytes + lane * s->lane_bytes, on ? 0xff : 0, (size_t)s->lane_bytes);
        c->bits |= (uint64_t)on << lane;
}

static void fill(sf_lanes *l, int32_t vector_bytes, int32_t lane_bytes, int32_t permute_bytes, int32_t groups, int32_t rows,
                 int32_t inner, bool reverse)
{
        shape s = {vector_bytes / lane_bytes, lane_bytes, permute_bytes < lane_bytes ? permute_bytes : lane_bytes};
        int32_t group = rows * inner, toward = reverse ? inner : -inner;
        l->inner = inner;
        l->rows = rows;
        l->groups = groups;
        l->unit = groups * group;
        l->reverse = reverse;
        l->parts = NULL;
        l->levels = 0;
        while (1 << l->levels < rows)
                l->levels++;
        for (int32_t k = 0; k < l->levels; k++)
                l->level_on[k].bits = 0;
        /* levels beyond do nothing, if a kernel walks through them */
        for (int32_t k = l->levels; k < SF_LANES_LEVELS; k++)
                memset(&l->level_on[k], 0, sizeof l->level_on[k]);
        l->before_on.bits = 0;
        for (int32_t lane = 0; lane < s.width; lane++) {
                bool idle = lane >= l->unit;
                int32_t in_group = lane % group, i = reverse ? rows - 1 - in_group / inner : in_group / inner;
                for (int32_t k = 0; k < l->levels; k++) {
                        bool on = !idle && (i >> k & 1);
                        choice_set(&l->level_on[k], &s, lane, on);
                        permute_set(&l->level[k], &s, lane, on ? lane + ((i & ((1 << k) - 1)) + 1) * toward : lane);
                }
                for (int32_t k = l->levels; k < SF_LANES_LEVELS; k++)
                        permute_set(&l->level[k], &s, lane, lane);
                choice_set(&l->before_on, &s, lane, !idle && i > 0);
                permute_set(&l->before, &s, lane, !idle && i > 0 ? lane + toward : lane);
                permute_set(&l->last, &s, lane, idle ? lane : lane + (rows - 1 - i) * -toward);
                /* groups * inner lanes are taken; the others repeat lane 0 and are never stored */
                bool taken = lane < groups * inner;
                permute_set(&l->take, &s, lane, taken ? lane / inner * group + (reverse ? 0 : group - inner) + lane % inner : 0);
        }
}

/*
 * Filling the tables takes longer than all the work of a small call, and small calls often repeat
 * the same shape. So each thread remembers the few tables that it made last. They are copied out,
 * because a plan's tables must not change when the thread makes others.
 */
enum { REMEMBERED = 4 }; /* 1.3 KB each: forward and reverse, of two shapes */

typedef struct remembered {
        /* the arguments of fill; all zero if never filled, which no call asks for */
        int32_t key[6];
        bool reverse;
        sf_lanes lanes;
} remembered;

void sf_lanes_make(sf_lanes *l, int32_t vector_bytes, int32_t lane_bytes, int32_t permute_bytes, int32_t groups, int32_t rows,
                   int32_t inner, bool reverse)
{
        static _Thread_local remembered table[REMEMBERED];
        static _Thread_local uint32_t next;
        const int32_t key[6] = {vector_bytes, lane_bytes, permute_bytes, groups, rows, inner};
        for (uint32_t i = 0; i < REMEMBERED; i++)
                if (table[i].reverse == reverse && memcmp(table[i].key, key, sizeof key) == 0) {
                        *l = table[i].lanes;
                        return;
                }
        fill(l, vector_bytes, lane_bytes, permute_bytes, groups, rows, inner, reverse);
        remembered *r = &table[next++ % REMEMBERED];
        memcpy(r->key, key, sizeof key);
        r->reverse = reverse;
        r->lanes = *l;
}

void sf_lanes_make_whole(sf_lanes whole[SF_LANES_WHOLE], int32_t vector_bytes, int32_t permute_bytes)
{
        for (int32_t t = 0; t < SF_LANES_WHOLE; t++) {
                const int32_t lane = 1 << t / 2;
                const bool reverse = t & 1;
                if (lane > 8) {
                        fill(&whole[t], vector_bytes, 8, permute_bytes, 1, vector_bytes / 16, 2, reverse);
                } else if (lane >= 4) {
                        fill(&whole[t], vector_bytes, lane, permute_bytes, 1, vector_bytes / lane, 1, reverse);
                } else {
                        fill(&whole[t], vector_bytes, lane, 1, vector_bytes / 16, 16 / lane, 1, reverse);
                        whole[t].parts = &whole[8 + reverse];
                        /* a single run, although 16-byte groups are combined first */
                        whole[t].rows *= whole[t].groups;
                        whole[t].groups = 1;
                }
        }
}
