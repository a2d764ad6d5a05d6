/*
 * not_commuting.hpp: put in front of the kernels by test_sides_host.c: in place of every operation
 * of u64, one that does not commute: y = low * x + high as a word, composed, the left one first. It
 * is associative, exactly, and 1 is neutral on either side, as it is for a product.
 */
#define SF_COMMUTES 0
#define SF_JOIN(op, a, b) sf_compose(a, b)

template <class T> static inline T sf_compose(T a, T b)
{
        static_assert(sizeof(T) == 8, "of u64 alone");
        unsigned a_high = (unsigned)((unsigned long long)a >> 32);
        unsigned b_high = (unsigned)((unsigned long long)b >> 32);
        unsigned low = (unsigned)a * (unsigned)b, high = a_high * (unsigned)b + b_high;
        return (T)((unsigned long long)high << 32 | low);
}
