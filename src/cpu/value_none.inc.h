/*
 * value_none.inc.h: what stands for nothing, and how elements become values. Template, part of values.inc.h, included once O(val) is known.
 */
typedef struct O(none) {
        O(val) value;   /* the identity */
        N(vec) element; /* and the element it comes from */
        K_BITS turn;    /* bits in which elements differ from values */
#if K_PARTS > 1
        int64_t beside;  /* where the other of two elements stands, in bytes from the first */
        K_INTEGERS late; /* bits in which positions differ: all of them, where of equal ones the last wins */
#endif
} O(none);
