/* send_compacted.c: see send_compacted.h. */
#include "send_compacted.h"

#include "../store/compaction_pass.h"
#include "lane.h"
#include "send_batch.h"
#include "send_response.h"

static int has_keys(const rp_send_request *request) {
    if (!request->header.batch)
        return rp_compaction_key(request->properties.text).size > 0;
    rp_batch_message message;
    uint32_t position = 0;
    int got;
    while ((got = rp_batch_next(request->command->body, &position, &message)) == 1) {
        if (rp_compaction_key(message.properties).size == 0)
            return 0;
    }
    return 1; /* bodies with sizes that do not fit are refused when they are cut */
}

int rp_send_check_key(const rp_send_request *request) {
    return has_keys(request) ? RP_OK
                             : rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, request->lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                                         "Required message key is missing");
}
