/*
 * segments_flat.cuh: groups of segments_groups.cuh whose elements are contiguous, copied to cells
 * 16 bytes at a time.
 *
 * If x is contiguous and its elements are loaded as they are, a MIXED group is copied to cells as
 * it is in memory, and rows begin anywhere. Rows of one segment are SF_LEAF elements apart, in the
 * same bank. So that they do not collide, a lane takes its elements in another order: number i ^
 * swap at step i, where `swap` differs between neighbouring lanes. In a fold this changes only
 * which of two values is on the left; in a scan, neighbours are exchanged afterwards.
 */
#define SF_FLAT                                                                                    \
        (!SF_MAPS && !SF_FUSED && !SF_MASK && SF_X_UNIT == 1 &&                                    \
         (SF_FOLDS ? SF_COMMUTES : SF_Y_UNIT == 1))
/* Results are contiguous and need nothing but to be stored. */
#define SF_FLAT_RESULTS (!SF_FOLDS && !SF_MAPS && !SF_FUSED && SF_Y_UNIT == 1)
/* In a fold, a single part is computed like several. */
#define SF_FLAT_ALONE (SF_FLAT && SF_FOLDS)
static_assert(SF_LEAF <= 32 || SF_FLAT_ALONE,
              "only rows that are copied as they are may have more elements than a warp has lanes");

/* The elements of a single part of a scan are copied as they are too, but to padded rows. */
#define SF_RAW_ROWS (SF_FLAT && !SF_FOLDS && SF_IN_SIZE == SF_CELL)

/* A warp copies `length` elements; buffer and from have the same address modulo 16. */
template <int SIZE> SF_DEVICE void sf_fetch_flat(const char *from, int length,
                                                 unsigned char *buffer, int lane)
{
        enum { SOME = 4 }; /* an address may be that far from another in one instruction */
        int head;
        const int whole = sf_copy_ends<SIZE>(from, length, buffer, lane, head);
        buffer += head * SIZE + lane * 16;
        from += head * SIZE + lane * 16;
#pragma unroll 1
        for (int left = whole - lane; left + lane > 0; left -= SOME * 32) {
                from = sf_anew(from);
#pragma unroll
                for (int j = 0; j < SOME; j++)
                        if (j * 32 < left)
                                sf_copy_async<16>(buffer + j * 512, from + j * 512);
                buffer += SOME * 512;
                from += SOME * 512;
        }
        sf_copy_commit();
        sf_copy_wait<0>();
        sf_sync_warp();
}

/* The same back to memory. */
template <int SIZE, int MOST> SF_DEVICE void sf_store_flat(char *to, int length,
                                                           const unsigned char *buffer, int lane)
{
        enum { EACH = 16 / SIZE };
        const int past = (int)(-(sf_u64)to & 15) / SIZE, head = past < length ? past : length;
        const int whole = (length - head) / EACH, tail = length - head - whole * EACH;
        sf_raw<SIZE> one;
        if (lane < head) {
                sf_shared_load(buffer + lane * SIZE, one);
                sf_store(to + lane * SIZE, one);
        }
        if (lane < tail) {
                sf_shared_load(buffer + (length - tail + lane) * SIZE, one);
                sf_store(to + (length - tail + lane) * SIZE, one);
        }
        buffer += head * SIZE + lane * 16;
        to = sf_anew(to + head * SIZE + lane * 16);
#pragma unroll
        for (int j = 0; j < MOST; j++)
                if (lane + j * 32 < whole) {
                        sf_raw<16> r;
                        sf_shared_load(buffer + j * 512, r);
                        sf_store(to + j * 512, r);
                }
}

/* How many rows of a segment do not collide. */
enum { SWAPS = SF_FOLDS ? (16 < SF_LEAF ? 16 : SF_LEAF) : 4 };

/* Bit i becomes bit i ^ swap. */
SF_DEVICE sf_u32 sf_swap_bits(sf_u32 v, int swap)
{
        v = swap & 1 ? (v & 0x55555555u) << 1 | (v >> 1 & 0x55555555u) : v;
        v = swap & 2 ? (v & 0x33333333u) << 2 | (v >> 2 & 0x33333333u) : v;
        return swap & 4 ? (v & 0x0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0fu) : v;
}
SF_DEVICE sf_acc sf_either(bool first, const sf_acc &a, const sf_acc &b)
{
        return sf_choose(first, a, b);
}
template <int BYTES> SF_DEVICE sf_raw<BYTES> sf_either(bool first, const sf_raw<BYTES> &a,
                                                       const sf_raw<BYTES> &b)
{
        sf_raw<BYTES> r;
#pragma unroll
        for (int w = 0; w < (BYTES + 3) / 4; w++)
                r.w[w] = first ? a.w[w] : b.w[w];
        return r;
}
/* Element i becomes element i ^ swap. */
template <class T, int N> SF_DEVICE void sf_swap(T (&v)[N], int swap)
{
#pragma unroll
        for (int b = 1; b < SWAPS; b *= 2)
#pragma unroll
                for (int i = 0; i < N; i++)
                        if (!(i & b)) {
                                const T low = v[i], high = v[(i | b) % N];
                                v[i] = sf_either(swap & b, high, low);
                                v[(i | b) % N] = sf_either(swap & b, low, high);
                        }
}

#if SF_FLAT_ALONE
/* The total of a row of a group that is in cells as it is in memory. Eight elements at a time are
 * combined, whether the row has them or not, and taken if it has all of them. So only its last few,
 * fewer than eight, have to be chosen one by one. */
template <int N> SF_DEVICE sf_acc sf_fold_flat(const sf_params &p, const sf_window &w,
                                               const sf_group &g, const sf_row &row)
{
        enum { EIGHT = N < 8 ? N : 8 };
        const int swap = w.lane & (SWAPS - 1), low = swap & (EIGHT - 1), high = swap - low;
        const int length = row.length, last = length & -(int)EIGHT;
        const unsigned char *cells =
                w.cells + ((sf_u64)(w.line.x + (w.first + g.at) * SF_IN_SIZE) & 15) +
                (length ? row.at : 0) * SF_IN_SIZE;
        const sf_i64 number = (row.leads ? (sf_i64)g.number * CHUNK : 0) + row.number * SF_LEAF;
        const sf_acc neutral = sf_neutral(p);
        const unsigned char *from[SWAPS];
        sf_acc v[N / EIGHT], few = neutral, e[EIGHT];
#pragma unroll
        for (int i = 0; i < SWAPS; i++)
                from[i] = cells + (i ^ swap) * SF_IN_SIZE;
        if (sf_ballot(length > last)) {
                const sf_u32 taken = sf_swap_bits(sf_up_to(length - last), low);
#pragma unroll
                for (int i = 0; i < EIGHT; i++) {
                        sf_vector raw = sf_no_vector();
                        sf_shared_glance(from[i] + (last - high) * SF_IN_SIZE, raw.x,
                                         taken >> i & 1);
                        e[i] = sf_choose(taken >> i & 1,
                                         sf_lifted(sf_read(p, raw), number + last + (i ^ low)),
                                         neutral);
                }
                sf_combine_leaf(e);
                few = e[EIGHT - 1];
        }
#pragma unroll
        for (int j = 0; j < N; j += EIGHT) {
                const int first = j ^ high;
#pragma unroll
                for (int i = 0; i < EIGHT; i++) {
                        sf_vector raw = sf_no_vector();
                        sf_shared_glance(from[(i + j) % SWAPS] + j / SWAPS * SWAPS * SF_IN_SIZE,
                                         raw.x, first < last);
                        e[i] = sf_lifted(sf_read(p, raw), number + first + (i ^ low));
                }
                sf_combine_leaf(e);
                v[j / EIGHT] = sf_choose(first < last, e[EIGHT - 1],
                                         sf_choose(first == last, few, neutral));
        }
        sf_combine_leaf(v);
        return sf_settled(v[N / EIGHT - 1]);
}
#endif
