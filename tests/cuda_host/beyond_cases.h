#ifndef SF_BEYOND_CASES_H
#define SF_BEYOND_CASES_H

#include "backend_host.h"

/* test_cuda_host.c has these. */
extern const sf_cuda_chip small_chip, real_chip;
extern long turn; /* the seed of what is met now */
bool is_turn(void);

/* Each meets what its list has, for the chip that host_chip is. meet_views changes that: its list
 * names chips. */
void meet_views(void);
void meet_limited_totals(void);
void meet_endless_products(void);

#endif
