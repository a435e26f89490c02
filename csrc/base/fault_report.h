/* fault_report.h: reports which byte of which mapped file the disk could not provide, and what to do, before SIGBUS ends the process.
 * Without this it would end with "Bus error" alone. A thread that holds the bytes (map_hold.h) gets an error instead, and the process
 * continues.
 *
 * Threads  any may fault; install from one, for the whole process.
 */
#ifndef RP_BASE_FAULT_REPORT_H
#define RP_BASE_FAULT_REPORT_H

/* Installs the handler. The process still ends by the signal, with a core file where these are enabled. RP_OK, RP_E_IO. */
int rp_fault_report_install(void);

#endif
