/* check.h: what the C test programs share. A program exits 0 when its claims hold, 1 when one does not.
 * CHECK prints the failed claim and exits at once. */
#ifndef RP_TESTS_CHECK_H
#define RP_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                                                                       \
    do {                                                                                                                                   \
        if (!(claim)) {                                                                                                                    \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #claim);                                              \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

#define RUN(test)                                                                                                                          \
    do {                                                                                                                                   \
        test();                                                                                                                            \
        printf("ok %s\n", #test);                                                                                                          \
        fflush(stdout);                                                                                                                    \
    } while (0)

#endif
