/* bound_socket.c: see bound_socket.h. */
#include "bound_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

static int is_every_interface(const struct sockaddr_storage *address) {
    struct sockaddr_in v4;
    memcpy(&v4, address, sizeof v4);
    return v4.sin_family == AF_INET && v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

static int bound(const struct sockaddr_storage *address, socklen_t size) {
    int one = 1, zero = 0;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        (address->ss_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) == 0) &&
        bind(fd, (const struct sockaddr *)address, size) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

int rp_bound_socket(const char *host, uint16_t port, int *fd, int *without_ipv6) {
    struct sockaddr_storage address, of_both;
    uint32_t size, size_of_both;
    *fd = -1;
    *without_ipv6 = 0;
    if (rp_address_parse(host, port, &address, &size) != RP_OK)
        return RP_E_INVALID;
    if (is_every_interface(&address) && rp_address_parse("::", port, &of_both, &size_of_both) == RP_OK) {
        *fd = bound(&of_both, size_of_both);
        *without_ipv6 = *fd >= 0 || errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL ? 0 : errno;
    }
    if (*fd < 0)
        *fd = bound(&address, size);
    return *fd >= 0 ? RP_OK : RP_E_NETWORK;
}
