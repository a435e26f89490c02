/* backlog_pipe.h: the way of a backlog from a slave's socket into its log. Private to csrc/ha.
 *
 *   master's page cache ─ sendfile ─► socket ─ splice ─► pipe ─ splice ─► slave's page cache
 *
 * Why      the kernel copies the buffers of the loopback or the card once, into pages that nobody had to zero or map before. The receiver
 *          spends 0.8 s of CPU on each GB, as much as on reading and discarding it; receiving into a mapped file costs 1.3 to 1.6 s
 *          (docs/performance.md).
 * Threads  one owner. Owns: the pipe, made at first use.
 */
#ifndef RP_HA_BACKLOG_PIPE_H
#define RP_HA_BACKLOG_PIPE_H

#include <stdint.h>
#include <sys/types.h>

typedef struct rp_backlog_pipe {
    int fds[2]; /* read end, write end; both -1: not there */
} rp_backlog_pipe;

void rp_backlog_pipe_init(rp_backlog_pipe *backlog);
/* 0; -1 when there is no descriptor for it: then the bytes have to go another way. */
int rp_backlog_pipe_open(rp_backlog_pipe *backlog);
/* Up to size bytes of the socket, which does not block, into the empty pipe. As recv: 0 at the end of the stream, -1 with errno. */
ssize_t rp_backlog_pipe_fill(const rp_backlog_pipe *backlog, int socket, uint32_t size);
/* With whatever it holds. */
void rp_backlog_pipe_close(rp_backlog_pipe *backlog);

#endif
