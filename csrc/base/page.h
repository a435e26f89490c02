/* page.h: the unit in which this kernel maps files: 4 KiB on x86-64; on aarch64 4, 16 or 64 KiB, depending on its build.
 *
 * Arguments of madvise, mincore and msync must begin at a page; a part of a page is treated as the whole page; and the first store to a
 * page needs disk space for all of it. Sizes in a file's format do not depend on it.
 * Threads  any; pure.
 */
#ifndef RP_BASE_PAGE_H
#define RP_BASE_PAGE_H

#include <stddef.h>

#define RP_PAGE_SIZE_MIN 4096 /* smallest page size of any kernel; larger ones are multiples of it */

size_t rp_page_size(void);

#endif
