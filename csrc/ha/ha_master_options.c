/* ha_master_options.c: see ha_master_options.h and ha_master.h. */
#include "ha_master_options.h"

#include <stddef.h>

void rp_ha_master_options_default(rp_ha_master_options *options) {
    *options = (rp_ha_master_options){
        .commit_log_file_size = 1ull << 30,
        .bind_address = "0.0.0.0",
        .slaves_max = 16,
        .slaves_required = 1,
        .transfer_bytes = 32768,
        .transfer_bytes_max = 1u << 20,
        .heartbeat_interval_ms = 5000,
        .housekeeping_interval_ms = 20000,
    };
}

int rp_ha_master_options_check(const rp_ha_master_options *options, rp_error *error) {
    if (options->commit_log == NULL || options->commit_log_file_size == 0 || options->bind_address == NULL)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "ha master needs a commit log, its file size and a bind address");
    if (options->slaves_max < 1 || options->slaves_max > RP_HA_SLAVES_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "slaves_max is %u, must be 1..%u", options->slaves_max, RP_HA_SLAVES_MAX);
    if (options->slaves_min > options->slaves_max)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "minInSyncReplicas needs %u slaves, must be 0..%u", options->slaves_min,
                            options->slaves_max);
    if (options->slaves_required < 1 || options->slaves_required > options->slaves_max)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "inSyncReplicas needs %u slaves, must be 1..%u", options->slaves_required,
                            options->slaves_max);
    if (options->fewer_gap_bytes < 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "fewer_gap_bytes is %lld, must be 0 or more",
                            (long long)options->fewer_gap_bytes);
    if (options->transfer_bytes_max < 1 || options->transfer_bytes_max > RP_HA_FRAME_BYTES_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "transfer_bytes_max is %u, must be 1..%u", options->transfer_bytes_max,
                            RP_HA_FRAME_BYTES_MAX);
    if (options->transfer_bytes < 1 || options->transfer_bytes > options->transfer_bytes_max)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "haTransferBatchSize is %u, must be 1..%u", options->transfer_bytes,
                            options->transfer_bytes_max);
    if (options->heartbeat_interval_ms < 1 || options->housekeeping_interval_ms < 1)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "haSendHeartbeatInterval and haHousekeepingInterval must be at least 1 ms");
    return RP_OK;
}
