/*
 * value_none.inc.h: the value that represents nothing, and what turns elements into values.
 * Template, part of values.inc.h, included once O(val) is defined.
 */
typedef struct O(none) {
        O(val) value;   /* the identity */
        N(vec) element; /* the element of that value */
        K_BITS turn;    /* bits in which elements differ from values */
#ifdef K_LIFTS /* sf_prelude */
        bool lifts, skips, square;
        K_BITS keep;
        N(vec) centre;
#endif
#if K_PARTS > 1
        int64_t beside;  /* bytes from an element's first part to its second */
        K_INTEGERS late; /* bits to invert in positions: all, if the last of equal elements wins */
#endif
} O(none);
