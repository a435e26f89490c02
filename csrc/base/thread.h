/* thread.h: a named native thread that leaves all signals to Python's main thread.
 *
 * Threads  start and join from the owner. Owns: nothing but the thread; context is borrowed until join returns.
 */
#ifndef RP_BASE_THREAD_H
#define RP_BASE_THREAD_H

#define RP_THREAD_NAME_MAX 16 /* the kernel's limit, including the final zero; longer names are cut */

typedef struct rp_thread rp_thread;

/* Runs run(context) on a new thread with every signal blocked except SIGBUS, which a thread raises itself. RP_OK; RP_E_NO_MEMORY;
 * RP_E_BUSY: the system has no thread left. */
int rp_thread_start(rp_thread **thread, const char *name, void (*run)(void *context), void *context);
/* The same for a thread that nobody joins and that the process does not wait for at its end: it owns context. */
int rp_thread_start_alone(const char *name, void (*run)(void *context), void *context);
/* Returns why a start failed and what helps; static storage. A limit on address space (ulimit -v) counts every thread's stack. */
const char *rp_thread_refusal(int status);
/* Waits until run has returned, and frees thread. NULL is allowed. */
void rp_thread_join(rp_thread *thread);

/* Lowers the priority of the calling thread, which works ahead or behind, below those that answer clients: it gets a tenth of a
 * contended core. Nothing that a client waits for may wait for it. */
void rp_thread_lower_priority(void);

#endif
