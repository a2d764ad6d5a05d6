/*
 * Which segments are in a block: a cursor goes through the offsets of a task (segments.c).
 */
#include "cpu/panel.h"

/* The most positions of a block that has one segment and no panel. */
#define MOST_AT_ONCE (1 << 30)

sf_cursor sf_cursor_of(const sf_step *step)
{
        const sf_segments *s = &step->segments;
        const int64_t rest = sf_segments_walked(step) - s->count;
        if (step->reverse)
                return (sf_cursor){.step = step, .low = rest, .high = s->count + rest, .at = s->offsets + (s->count + rest) * s->stride, .stride = -s->stride, .base = step->n, .sign = -1};
        return (sf_cursor){.step = step, .high = s->count, .at = s->offsets, .stride = s->stride, .sign = 1};
}

/* plain: offsets follow one another in memory, and positions are counted as they are. */
SF_INLINE int64_t read_begin(const sf_cursor *c, int64_t k, const bool wide, const bool plain)
{
        if (plain)
                return sf_segments_read(c->at + k * (wide ? 8 : 4), wide);
        return c->base + c->sign * sf_segments_read(c->at + k * c->stride, wide);
}

int64_t sf_cursor_begin(const sf_cursor *c, int64_t k)
{
        if (k < c->low || k > c->high)
                return c->step->reverse ? 0 : c->step->n;
        return read_begin(c, k, c->step->segments.wide, false);
}

/* Takes whole segments as long as they fit: the usual case if there are many short ones. None of
 * them is a step by itself, because those are longer than a block. */
SF_INLINE void take_whole(sf_cursor *c, const sf_panels *p, int32_t *bound, sf_cuts *cuts, int64_t *used, const bool wide, const bool plain)
{
        enum { EACH = 16 };
        const int64_t origin = c->begin - *used, limit = origin + p->block;
        const int64_t last = sf_smaller(sf_smaller(c->end, c->high), c->k + sf_panels_cuts(p) - cuts->parts);
        int64_t k = c->k;
        int32_t *to = bound + cuts->parts - k, most = (int32_t)cuts->most;
        for (; k >= c->low && k + EACH <= last && read_begin(c, k + EACH, wide, plain) <= limit; k += EACH)
                for (int i = 1; i <= EACH; i++)
                        to[k + i] = (int32_t)(read_begin(c, k + i, wide, plain) - origin);
        for (; k >= c->low && k < last; k++) {
                const int64_t next = read_begin(c, k + 1, wide, plain);
                if (next > limit)
                        break;
                to[k + 1] = (int32_t)(next - origin);
        }
        if (k == c->k)
                return;
        for (int64_t i = c->k; i < k; i++) {
                const int32_t length = to[i + 1] - to[i];
                most = length > most ? length : most;
        }
        cuts->parts += k - c->k;
        cuts->most = most;
        cuts->length = to[k] - to[k - 1];
        *used = to[k];
        c->k = k;
        c->begin = origin + to[k];
        if (k < c->end)
                c->next = sf_cursor_begin(c, k + 1);
}

void sf_cursor_go_on(sf_cursor *c)
{
        c->k++;
        c->begin = c->next;
        c->done = 0;
        if (c->k < c->end)
                c->next = sf_cursor_begin(c, c->k + 1);
}

/* Fills a block with whole segments, and of the last one perhaps only whole tiles. Returns how many
 * positions it has. */
int64_t sf_cursor_fill(sf_cursor *c, const sf_panels *p, int64_t tile, int32_t *bound, sf_cuts *cuts)
{
        int64_t used = 0;
        *cuts = (sf_cuts){.bound = bound, .start = c->done, .first = c->k, .ends = true};
        bound[0] = 0;
        if (!c->done) {
                const bool wide = c->step->segments.wide, plain = c->stride == (wide ? 8 : 4) && c->sign > 0;
                if (plain && wide)
                        take_whole(c, p, bound, cuts, &used, true, true);
                else if (plain)
                        take_whole(c, p, bound, cuts, &used, false, true);
                else if (wide)
                        take_whole(c, p, bound, cuts, &used, true, false);
                else
                        take_whole(c, p, bound, cuts, &used, false, false);
        }
        while (c->k < c->end && cuts->parts < sf_panels_cuts(p)) {
                const int64_t length = c->next - c->begin, left = length - c->done, room = p->direct && !used ? MOST_AT_ONCE : p->block - used;
                if (length >= p->longest)
                        break; /* it is a step by itself */
                if (left > room && used && (p->direct || (length <= p->block && used >= p->block / 2)))
                        break; /* the next block has room for all of it */
                const int64_t take = left <= room ? left : room / tile * tile;
                if (take < left && !take)
                        break;
                used += take;
                bound[++cuts->parts] = (int32_t)used;
                cuts->length = length;
                cuts->most = sf_larger(cuts->most, length);
                c->done += take;
                if (take < left) {
                        cuts->ends = false;
                        break;
                }
                sf_cursor_go_on(c);
        }
        for (int32_t i = 1; i <= SF_CPU_RAGGED_ROOM; i++)
                bound[cuts->parts + i] = bound[cuts->parts];
        return used;
}
