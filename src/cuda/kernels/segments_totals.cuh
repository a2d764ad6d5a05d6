/*
 * segments_totals.cuh: totals of leaves, of groups of 32 of them, and so on up, which tiles tell each other (segments.cu).
 */

/* So often a total is looked for that does not come, as when offsets decrease. Who has given up says so, in the second word of scratch, which others look at now and
 * then: so a launch does not wait as long for each of many. */
#define PATIENCE (1 << 22)
#define NOW_AND_THEN 1024

/* How many places a tile may have on a level; and where they begin in shared memory, behind 32 that it looks back at. */
SF_DEVICE int sf_places(int level) { return level ? SF_SEGMENTS_PLACES - 32 : (int)WINDOWS; }
SF_DEVICE int sf_level_at(int level) { return level ? 32 + WINDOWS + (level - 1) * SF_SEGMENTS_PLACES : 0; }

SF_DEVICE sf_u64 *sf_published(const sf_frame &f, int level, sf_i64 place, int column) { return f.words[level] + (place * SF_STRIP + column) * WORDS; }

/* A line of one tile tells nobody anything. */
SF_DEVICE void sf_tell(const sf_params &p, const sf_frame &f, int level, sf_i64 place, int column, sf_acc v)
{
        if (p.number[0] > 1)
                sf_publish<1>(sf_published(f, level, place, column), v, f.mark);
}

/* What a thread has to find out of other tiles: places of all levels in turn. */
enum { LOOKS = (32 * SF_STRIP * SF_DEPTH + SF_THREADS - 1) / SF_THREADS };
struct sf_look {
        const sf_u64 *words;
        int at, number, level; /* where it belongs; whose total it is; level -1: nothing is to be found out */
        bool there;
        sf_words found;
};
SF_DEVICE void sf_look_once(sf_look &look, sf_u32 mark)
{
        bool there = true;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
                const sf_u64 word = sf_watch(look.words + w);
                there = there && (sf_u32)(word >> 32) == mark;
                look.found.w[w] = (sf_u32)word;
        }
        look.there = there;
}

SF_DEVICE void sf_look_on(const sf_params &p, sf_look &look, sf_u32 mark)
{
        sf_u64 *given_up = (sf_u64 *)p.scratch + 1;
        for (int tries = 1; !look.there; tries++) {
                sf_look_once(look, mark);
                if (tries == PATIENCE)
                        sf_post(given_up, mark);
                if (!(tries % NOW_AND_THEN) && sf_watch(given_up) == mark)
                        return;
        }
}

/* `q`: the number of the leaf that goes on where the tile begins, in its segment; 0: none does. Most totals are there long before they are needed: all are
 * asked for at once. */
SF_DEVICE void sf_look_back(const sf_params &p, const sf_frame &f, sf_i64 q, int thread, sf_look (&look)[LOOKS])
{
#pragma unroll
        for (int i = 0; i < LOOKS; i++) {
                const int own = (i * SF_THREADS + thread) / SF_STRIP, column = thread % SF_STRIP, level = own / 32, e = own % 32;
                look[i].level = -1;
                look[i].there = false;
                if (level >= SF_DEPTH || !(q >> 5 * level))
                        continue;
                sf_i64 place = f.place[0], left = q; /* of leaf q, or of the group it is in */
                for (int l = 0; l < level; l++) {
                        place = (place - (left & 31)) >> 5;
                        left >>= 5;
                }
                const int digit = (int)(left & 31);
                if (e >= digit)
                        continue;
                look[i].level = level;
                look[i].at = sf_level_at(level) + 32 + (int)(place - f.place[level]) - digit + e;
                look[i].number = (int)(left - digit + e);
                look[i].words = sf_published(f, level, place - digit + e, column);
                sf_look_once(look[i], f.mark);
        }
}

/* The levels: what is needed of other tiles is awaited, blocks of up to 32 are folded, groups are closed and published. */
SF_DEVICE void sf_climb(const sf_params &p, const sf_desk &d, sf_i64 q, int thread)
{
        const int column = thread % SF_STRIP, row = thread / SF_STRIP;
        sf_frame &f = *d.frame;
        sf_look look[LOOKS];
        sf_look_back(p, f, q, thread, look);
        for (int level = 0; level < SF_DEPTH; level++, q >>= 5) {
                const int at = sf_level_at(level), count = 32 + sf_places(level);
                sf_sync_block();
                if (!q && !f.closed[level])
                        return;
#pragma unroll
                for (int i = 0; i < LOOKS; i++)
                        if (look[i].level == level) {
                                sf_look_on(p, look[i], f.mark);
                                d.totals[look[i].at * SF_STRIP + column] = look[i].there ? sf_of_words(look[i].found) : sf_neutral(p);
                                sf_agree(d.place[look[i].at], look[i].number);
                        }
                sf_sync_block();
                if (SF_STRIP == 1 && level && thread >= 32) /* it is little: one warp does it */
                        continue;
                const int by = SF_STRIP == 1 && level ? 32 : (int)WINDOWS;
#pragma unroll
                for (int b = 1; b < 32; b *= 2) {
                        for (int u = at + row; u < at + count; u += by)
                                if (!((d.place[u] + 1) & (2 * b - 1))) {
                                        sf_acc *own = &d.totals[u * SF_STRIP + column];
                                        *own = sf_settled(sf_combine(own[-b * SF_STRIP], *own));
                                }
                        if (SF_STRIP == 1 && level)
                                sf_sync_warp();
                        else
                                sf_sync_block();
                }
                for (int u = at + 32 + row; level + 1 < SF_DEPTH && u < at + count; u += by)
                        if ((d.place[u] & 31) == 31) {
                                const sf_i64 group = (f.place[level] + (u - at - 32) - 31) >> 5;
                                const int to = sf_level_at(level + 1) + 32 + (int)(group - f.place[level + 1]);
                                const sf_acc v = d.totals[u * SF_STRIP + column];
                                d.totals[to * SF_STRIP + column] = v;
                                sf_agree(d.place[to], d.place[u] >> 5);
                                sf_agree(f.closed[level + 1], 1);
                                sf_tell(p, f, level + 1, group, column, v);
                        }
        }
}

/* What a leaf takes of those before it, one total after another. */
struct sf_lefts {
        sf_u32 q;   /* bits that are left, of this level and those above */
        int place;  /* of what q says on this level, counted from the tile's first there */
        int level;
};
/* Where the next one is, for the lowest bit: right before the place that is left when the bits below it are gone. There is one. */
SF_DEVICE int sf_next_left(const sf_frame &f, sf_lefts &s)
{
        while (!(s.q & 31)) {
                const int low = (int)f.place[s.level] & 31; /* the tile's first place above is (first - 31) >> 5 */
                s.place = ((low + s.place) >> 5) + (low < 31);
                s.q >>= 5;
                s.level++;
        }
        const int at = sf_level_at(s.level) + 31 + s.place;
        s.place -= (int)(s.q & (0 - s.q));
        s.q &= s.q - 1;
        return at;
}
