/* floor_parts.c: see floor_parts.h. */
#include "floor_parts.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

void rp_floor_fill_rate(rp_floor_rate *rate, const rp_histogram *rounds, uint64_t bytes, int64_t elapsed_ns) {
    *rate = (rp_floor_rate){rp_histogram_count(rounds),
                            bytes,
                            (uint64_t)elapsed_ns,
                            rp_histogram_percentile(rounds, 50),
                            rp_histogram_percentile(rounds, 99),
                            rp_histogram_percentile(rounds, 99.9)};
}

int rp_floor_tcp_pair(int *writer, int *reader) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *writer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *reader = -1;
    if (listening >= 0 && *writer >= 0 && bind(listening, (struct sockaddr *)&address, size) == 0 && listen(listening, 1) == 0 &&
        getsockname(listening, (struct sockaddr *)&address, &size) == 0 && connect(*writer, (struct sockaddr *)&address, size) == 0)
        *reader = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    int failed = errno;
    if (listening >= 0)
        close(listening);
    errno = failed;
    return *reader >= 0 ? 0 : -1;
}
