/* page.c: see page.h. The C library got the size from the kernel at the process' start: no system call. */
#include "page.h"

#include <unistd.h>

size_t rp_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }
