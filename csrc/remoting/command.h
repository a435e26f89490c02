/* command.h: one remoting command, decoded from or encoded into a frame.
 * RocketMQ: RemotingCommand, RocketMQSerializable, RemotingSerializable (5.3.3 remoting/protocol/).
 *
 * Frame    [4 size of the rest][1 serialize type][3 header size][header][body]; size excludes its own 4 bytes.
 * JSON     {"code","language","version","opaque","flag","remark","extFields":{string:string},"serializeTypeCurrentRPC"}
 * ROCKETMQ [2 code][1 language][2 version][4 opaque][4 flag][4 remark size][remark][4 fields size]([2 key size][key][4 value size][value])*
 *
 * Threads  pure functions. Slices of a decoded command point into the frame or into the arena (escaped JSON strings):
 *          they live as long as the shorter of both.
 * Bounds   RP_COMMAND_FIELDS_MAX fields; header and frame sizes checked before they allocate, index or add.
 */
#ifndef RP_REMOTING_COMMAND_H
#define RP_REMOTING_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "../base/arena.h"
#include "../base/error.h"
#include "../base/slice.h"

enum rp_serialize_type { RP_SERIALIZE_JSON = 0, RP_SERIALIZE_ROCKETMQ = 1 };
enum rp_command_flag { RP_COMMAND_RESPONSE = 1, RP_COMMAND_ONEWAY = 2 };

#define RP_COMMAND_FIELDS_MAX 128
#define RP_FRAME_SIZE_MAX 16777216 /* com.rocketmq.remoting.frameMaxLength */

typedef struct rp_field {
    rp_slice key;
    rp_slice value;
} rp_field;

typedef struct rp_command {
    int32_t code;
    int32_t version;
    int32_t opaque;
    int32_t flag;
    uint8_t language;       /* LanguageCode's number; JSON names are mapped, unknown ones to 255 */
    uint8_t serialize_type; /* rp_serialize_type */
    uint16_t field_count;
    rp_slice remark; /* data NULL: no remark */
    rp_slice body;
    rp_field fields[RP_COMMAND_FIELDS_MAX]; /* only the first field_count are written or read, so a command need not be zeroed */
} rp_command;

/* Resets the command to one without fields, remark and body, by setting single members; the rest of it stays untouched. */
void rp_command_clear(rp_command *command, int32_t code, uint8_t serialize_type);
/* Resets the command to a response to request: with its opaque and encoding, the response flag, and language JAVA (which every client's
 * table knows). */
void rp_command_clear_response(rp_command *response, const rp_command *request, int32_t code);
/* Adds a field; nothing is copied. RP_OK, RP_E_TOO_LARGE past RP_COMMAND_FIELDS_MAX. */
int rp_command_add_field(rp_command *command, rp_slice key, rp_slice value);

/* Looks for a frame at the beginning of data. 1: it is complete, and *frame_size is its size including the 4 length bytes; 0: more bytes
 * are needed (*frame_size is set once 4 bytes are there, else 0); RP_E_TOO_LARGE past frame_max; RP_E_PROTOCOL for a size below 4 or a
 * header longer than the frame. */
int rp_frame_scan(const uint8_t *data, size_t size, uint32_t frame_max, uint32_t *frame_size);

/* Decodes one complete frame, including its 4 length bytes. RP_OK; RP_E_PROTOCOL with cause and byte offset in error; RP_E_NO_MEMORY if
 * the arena is exhausted (arena may be NULL if no string has escapes). Unknown JSON members are skipped; extFields values that are no
 * strings are taken as their text; null values, and in the binary encoding empty ones, count as absent, as RocketMQ reads them. A
 * missing member is 0. */
int rp_command_decode(const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error);

/* The value of a field by its name; data is NULL if it is absent. If several fields have that name, the last one counts. */
rp_slice rp_command_field(const rp_command *command, const char *name);

/* RocketMQ's LanguageCode: "JAVA" for 0 and so on; "OTHER" for unknown numbers, 255 for unknown names. */
const char *rp_language_name(uint8_t language);
uint8_t rp_language_number(rp_slice name);

/* An upper bound for the size of the frame that this command encodes to, body included; 0 if it is too large. */
size_t rp_command_size_max(const rp_command *command);

/* Encodes into target in command->serialize_type. Returns the bytes written; RP_E_TOO_LARGE if target_size is too small or the header
 * exceeds 16 MB; RP_E_INVALID for an unknown serialize_type, and for a code, version or key size that the binary encoding cannot hold.
 * Fields without value (data NULL) are left out. With body.data NULL and body.size > 0 the frame announces the body, which the caller
 * sends next (what is written then ends with the header). */
int64_t rp_command_encode(const rp_command *command, uint8_t *target, size_t target_size);

/* Parses a whole slice as a decimal number. 0; RP_E_PROTOCOL if it is empty, only a sign, has other characters, or overflows. */
int rp_slice_to_i64(rp_slice slice, int64_t *value);
int rp_slice_to_i32(rp_slice slice, int32_t *value);
/* "true"/"false" as Java's Boolean.parseBoolean: 1 only for "true" in any case. */
int rp_slice_to_bool(rp_slice slice);

#endif
