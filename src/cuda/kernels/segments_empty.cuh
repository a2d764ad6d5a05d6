/*
 * segments_empty.cuh: long runs of empty segments (segments.cu, segments_apply.cu). All of a run are
 * at one position, so they are the window's that has it, however many they are. Whoever walks
 * through segments leaves out a long run. In a fold its segments have results nevertheless: those
 * of whole groups of SF_EMPTY_GROUP numbers are stored by warps that have no window, each for a
 * share of all groups; the few at the ends of the run by whoever walks.
 *
 * A group is stored so, it is apart, if its segments are empty and MARGIN before them too. A walker
 * has seen fewer of a run when it leaves the rest out, so nothing is stored twice.
 */
enum { MARGIN = 64 };

SF_DEVICE bool sf_is_apart(const sf_params &p, sf_i64 group)
{
        const sf_i64 first = group * SF_EMPTY_GROUP, end = first + SF_EMPTY_GROUP;
        return first && end <= p.segments && sf_bound(p, first - MARGIN) == sf_bound(p, end);
}

/* Of the empty segments from k on and before `next`, all but those apart: those before `head` and
 * from `tail` on. */
struct sf_ends_of_run {
        sf_i64 head, tail;
};
SF_DEVICE sf_ends_of_run sf_ends_of(const sf_params &p, sf_i64 k, sf_i64 next)
{
        sf_ends_of_run r;
        r.head = (k + SF_EMPTY_GROUP - 1) & -(sf_i64)SF_EMPTY_GROUP;
        r.tail = next & -(sf_i64)SF_EMPTY_GROUP;
        if (r.head < r.tail && !sf_is_apart(p, r.head / SF_EMPTY_GROUP))
                r.head += SF_EMPTY_GROUP;
        if (r.head >= r.tail)
                r.head = r.tail = next;
        return r;
}

/* The first segment from k on that ends behind `position`, at which k begins. A warp looks for it,
 * at first not far. */
SF_DEVICE sf_i64 sf_after_empty(const sf_params &p, sf_i64 k, sf_i64 position, int lane)
{
        enum { FAR_AWAY = 32 * 32 };
        const auto before = [=, &p](sf_i64 other) { return sf_bound(p, other) <= position; };
        const sf_i64 all = p.segments + 1, near = k + FAR_AWAY < all ? k + FAR_AWAY : all;
        sf_i64 found = sf_find_first(before, k, near, lane);
        if (found == near)
                found = sf_find_first(before, near, all, lane);
        return found > k ? found - 1 : k;
}
/* The same by a single thread. */
SF_DEVICE sf_i64 sf_after_empty_singly(const sf_params &p, sf_i64 k, sf_i64 position)
{
        sf_i64 low = k, high = p.segments + 1;
#pragma unroll 1
        while (low < high) {
                const sf_i64 middle = (low + high) >> 1;
                if (sf_bound(p, middle) <= position)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low > k ? low - 1 : k;
}

/* The groups of share `turn` that are apart, a bit for each. All lanes get them. */
SF_DEVICE sf_u32 sf_apart_in(const sf_params &p, sf_i64 turn, int lane)
{
        return sf_ballot(lane < SF_EMPTY_SHARE && sf_is_apart(p, turn * SF_EMPTY_SHARE + lane));
}
