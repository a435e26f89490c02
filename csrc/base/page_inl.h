/* page_inl.h: bytes of a file to pages and back. C only. */
#ifndef RP_BASE_PAGE_INL_H
#define RP_BASE_PAGE_INL_H

#include <stdint.h>

#include "page.h"

/* Where the page begins that has this byte of a file, or of a map from its start on. */
static inline int64_t rp_page_begin(int64_t at) { return at & -(int64_t)rp_page_size(); }

/* The first beginning of a page that is not before `at`. */
static inline int64_t rp_page_end(int64_t at) { return rp_page_begin(at + (int64_t)rp_page_size() - 1); }

#endif
