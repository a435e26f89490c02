/* md5.h: MD5 (RFC 1321) of contiguous bytes: the digest by which gRPC clients check that a message's body arrived whole.
 *
 * Threads  any; pure.
 */
#ifndef RP_BASE_MD5_H
#define RP_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

#define RP_MD5_SIZE 16

void rp_md5(const void *data, size_t size, uint8_t digest[RP_MD5_SIZE]);

#endif
