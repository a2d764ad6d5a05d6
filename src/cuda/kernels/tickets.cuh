/*
 * tickets.cuh: places for blocks in the order in which they start, and the mark of a launch.
 */

/*
 * The low half of the first word of scratch memory counts the tickets that this launch has drawn.
 * The high half counts the launches before this one; that number plus one is this launch's mark.
 * Everything that is published carries the mark. So a launch never takes what an earlier launch
 * published for its own, and nothing has to be cleared between launches. Every ticket drawn is
 * handed in. The last of the number[3] tickets makes the word ready for the next launch.
 */
SF_DEVICE sf_u64 sf_draw(const sf_params &p) { return sf_ticket((sf_u64 *)p.scratch); }
SF_DEVICE sf_u32 sf_mark(sf_u64 drawn) { return (sf_u32)(drawn >> 32) + 1; }
SF_DEVICE void sf_hand_in(const sf_params &p, sf_u64 drawn)
{
        if ((sf_i64)(sf_u32)drawn + 1 == p.number[3])
                sf_post((sf_u64 *)p.scratch, (sf_u64)sf_mark(drawn) << 32);
}
