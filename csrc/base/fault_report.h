/* fault_report.h: last words of a process that touches a byte of a mapped file which the disk does not give (SIGBUS): which file, which
 * byte, what to do. Without them the end says nothing but "Bus error". Whoever holds the bytes (map_hold.h) is told instead.
 *
 * Threads  any may fault; install from one, for the whole process.
 */
#ifndef RP_BASE_FAULT_REPORT_H
#define RP_BASE_FAULT_REPORT_H

/* From now on; the process still ends by the signal, with a core file where these are made. RP_OK, RP_E_IO. */
int rp_fault_report_install(void);

#endif
