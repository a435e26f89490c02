/* signer.c: see signer.h. */
#include "signer.h"

#include <stdlib.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "signature.h"

struct rp_signer {
    rp_hmac_key key;
    rp_slice access_key, token; /* behind it; token.data NULL: there is none */
};

int rp_signer_open(rp_slice access_key, rp_slice secret, rp_slice token, rp_signer **signer) {
    rp_signer *made = calloc(1, sizeof *made + access_key.size + token.size + 1);
    if (made == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *at = (uint8_t *)(made + 1);
    rp_hmac_key_make(&made->key, secret.data, secret.size);
    made->access_key = (rp_slice){at, access_key.size};
    memcpy(at, access_key.data, access_key.size);
    if (token.data != NULL) {
        made->token = (rp_slice){at + access_key.size, token.size};
        if (token.size > 0)
            memcpy(at + access_key.size, token.data, token.size);
    }
    *signer = made;
    return RP_OK;
}

void rp_signer_close(rp_signer *signer) {
    if (signer == NULL)
        return;
    rp_wipe(&signer->key, sizeof signer->key);
    free(signer);
}

static int add(rp_command *command, const char *name, rp_slice value) { return rp_command_add_field(command, rp_slice_of(name), value); }

int rp_signer_sign(const rp_signer *signer, rp_command *command, char signature[RP_SIGNATURE_TEXT_SIZE]) {
    rp_field_order order = {0};
    int status = add(command, "AccessKey", signer->access_key);
    if (status == RP_OK && signer->token.data != NULL)
        status = add(command, "SecurityToken", signer->token);
    if (status == RP_OK)
        status = rp_field_order_of(command, &order);
    if (status != RP_OK)
        return status;
    rp_signature_make(command, &order, &signer->key, signature);
    return add(command, "Signature", (rp_slice){(const uint8_t *)signature, RP_SIGNATURE_TEXT_SIZE});
}
