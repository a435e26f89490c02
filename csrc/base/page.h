/* page.h: the unit in which this kernel maps files: 4 KiB on x86-64; on aarch64 4, 16 or 64 KiB, as it was built.
 *
 * What madvise, mincore and msync are given begins at a page, or they refuse it; what they are given less than a page of they do to all of
 * it; and the first store to a page needs disk space for the whole page. Sizes that stand in a file's format are none of these.
 * Threads  any; pure.
 */
#ifndef RP_BASE_PAGE_H
#define RP_BASE_PAGE_H

#include <stddef.h>

#define RP_PAGE_SIZE_MIN 4096 /* of any kernel; each larger size is a multiple of it */

size_t rp_page_size(void);

#endif
