/* page_inl.h: converts between bytes of a file and pages. C only. */
#ifndef RP_BASE_PAGE_INL_H
#define RP_BASE_PAGE_INL_H

#include <stdint.h>

#include "page.h"

/* Returns the begin of the page that holds this byte of a file, or of a mapping. */
static inline int64_t rp_page_begin(int64_t at) { return at & -(int64_t)rp_page_size(); }

/* Returns the first begin of a page that is not before `at`. */
static inline int64_t rp_page_end(int64_t at) { return rp_page_begin(at + (int64_t)rp_page_size() - 1); }

#endif
