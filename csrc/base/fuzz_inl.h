/* fuzz_inl.h: the checks that libFuzzer targets share. Not in the library. */
#ifndef RP_BASE_FUZZ_INL_H
#define RP_BASE_FUZZ_INL_H

#include <stdlib.h>

#include "slice.h"

/* Ends the run, and the fuzzer keeps the input. */
static inline void demand(int claim) {
    if (!claim)
        abort();
}

static inline void lies_in(rp_slice part, rp_slice whole) {
    demand(part.size == 0 || (part.data >= whole.data && part.data + part.size <= whole.data + whole.size));
}

#endif
