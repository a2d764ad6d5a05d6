/* The smallest program: a cumulative sum along the rows of a matrix, and down its columns from the end. */
#include "scanfold.h"

#include <stdio.h>

int main(void)
{
        float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3];
        int64_t shape[2] = {2, 3};
        sf_tensor tx = {.data = x, .device = {SF_CPU, 0}, .ndim = 2, .dtype = SF_F32, .shape = shape};
        sf_tensor ty = tx;
        ty.data = y;

        sf_scan_options down_from_the_end = SF_SCAN_OPTIONS_INIT;
        down_from_the_end.axis = 0;
        down_from_the_end.reverse = 1;

        const sf_scan_options *each[] = {NULL, &down_from_the_end};
        for (int i = 0; i < 2; i++) {
                if (sf_scan(NULL, &tx, &ty, each[i]) != SF_OK) {
                        fprintf(stderr, "%s\n", sf_last_error(NULL));
                        return 1;
                }
                printf("%g %g %g\n%g %g %g\n\n", y[0][0], y[0][1], y[0][2], y[1][0], y[1][1], y[1][2]);
        }
        return 0;
}
