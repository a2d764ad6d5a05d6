/*
 * members.cuh: several folds that share one read of their elements (SF_MEMBERS > 1). Each fold is a
 * member, and the accumulator holds one value for each of them. Whatever combines, exchanges or
 * keeps accumulators does so with all members at once, and every member gets the bits it would get
 * alone.
 *
 * SF_EACH(F) lists the members: F(number, op, accumulator, dtype it is stored as, whether there is
 * an initial value). Member k's programs are sf_load_program<k> and sf_store_program<k>. All of
 * them get all operands that any of them reads.
 */
struct sf_acc {
#define MEMBER(k, op, acc, out, begins) sf_value<op, sf_of<acc>>::type v##k;
        SF_EACH(MEMBER)
#undef MEMBER
};

SF_DEVICE sf_acc sf_combine(const sf_acc &a, const sf_acc &b)
{
        sf_acc c;
#define MEMBER(k, op, acc, out, begins) c.v##k = SF_JOIN(op, a.v##k, b.v##k);
        SF_EACH(MEMBER)
#undef MEMBER
        return c;
}

SF_DEVICE sf_acc sf_settled(sf_acc v)
{
#define MEMBER(k, op, acc, out, begins) v.v##k = sf_value<op, sf_of<acc>>::settle(v.v##k);
        SF_EACH(MEMBER)
#undef MEMBER
        return v;
}

/* a or b, member by member: of whole structs the compiler would choose between addresses. */
SF_DEVICE sf_acc sf_choose(bool first, const sf_acc &a, const sf_acc &b)
{
        sf_acc c;
#define MEMBER(k, op, acc, out, begins) c.v##k = sf_value<op, sf_of<acc>>::choose(first, a.v##k, b.v##k);
        SF_EACH(MEMBER)
#undef MEMBER
        return c;
}

SF_DEVICE sf_acc sf_shuffle(const sf_acc &v, int lane)
{
        sf_acc c;
#define MEMBER(k, op, acc, out, begins) c.v##k = sf_value<op, sf_of<acc>>::shuffle(v.v##k, lane);
        SF_EACH(MEMBER)
#undef MEMBER
        return c;
}

/* Elements are lifted one by one when they are loaded, so nothing is left to do here. */
typedef sf_acc sf_number;
struct sf_holds {
        SF_DEVICE_MEMBER const sf_acc &lower(const sf_acc &v) { return v; }
        template <int N> SF_DEVICE_MEMBER void lift_all(const sf_acc *from, sf_acc *to)
        {
#pragma unroll
                for (int i = 0; i < N; i++)
                        to[i] = from[i];
        }
};

/* The first member's fields are where a launch with only one fold has them. */
#define FIELD(k, name) ((k) ? p.also[(k) ? (k) - 1 : 0].name : p.name)

SF_DEVICE sf_acc sf_identity(const sf_params &p)
{
        sf_acc c;
#define MEMBER(k, op, acc, out, begins) c.v##k = sf_value<op, sf_of<acc>>::lift(sf_dtype<acc>::constant(FIELD(k, identity)));
        SF_EACH(MEMBER)
#undef MEMBER
        return c;
}

SF_DEVICE sf_acc sf_neutral(const sf_params &p)
{
        sf_acc c;
#define MEMBER(k, op, acc, out, begins) c.v##k = sf_value<op, sf_of<acc>>::lift(sf_dtype<acc>::constant(FIELD(k, neutral)));
        SF_EACH(MEMBER)
#undef MEMBER
        return c;
}

SF_DEVICE sf_number sf_identity_number(const sf_params &p) { return sf_identity(p); }
SF_DEVICE sf_number sf_neutral_number(const sf_params &p) { return sf_neutral(p); }

/* v, each member combined with its initial value if it has one. */
SF_DEVICE sf_acc sf_begin(const sf_params &p, sf_acc v)
{
#define MEMBER(k, op, acc, out, begins) \
        if (begins)                      \
                v.v##k = SF_JOIN(op, (sf_value<op, sf_of<acc>>::lift(sf_dtype<acc>::constant(FIELD(k, initial)))), v.v##k);
        SF_EACH(MEMBER)
#undef MEMBER
        (void)p;
        return v;
}
#undef FIELD
