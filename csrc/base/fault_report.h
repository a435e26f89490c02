/* fault_report.h: what a process says before SIGBUS ends it, because it touched a byte of a mapped file that the disk does not give: which
 * file, which byte, what to do. Without this it would end with "Bus error" alone. A thread that holds the bytes (map_hold.h) gets an error
 * instead, and the process lives on.
 *
 * Threads  any may fault; install from one, for the whole process.
 */
#ifndef RP_BASE_FAULT_REPORT_H
#define RP_BASE_FAULT_REPORT_H

/* From now on; the process still ends by the signal, with a core file where these are made. RP_OK, RP_E_IO. */
int rp_fault_report_install(void);

#endif
