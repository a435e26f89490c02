package rocketpy.interop;

import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerLeaderElector;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.exception.DLedgerException;
import io.openmessaging.storage.dledger.protocol.AppendEntryRequest;
import io.openmessaging.storage.dledger.protocol.AppendEntryResponse;
import io.openmessaging.storage.dledger.snapshot.SnapshotReader;
import io.openmessaging.storage.dledger.snapshot.SnapshotWriter;
import io.openmessaging.storage.dledger.statemachine.CommittedEntryIterator;
import io.openmessaging.storage.dledger.statemachine.StateMachine;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** A member of a group as DLedger is: says what it is and applies, and appends while it leads, until its input ends. */
public class DLedgerMember {
    public static void main(String[] args) throws Exception {
        DLedgerConfig config = new DLedgerConfig();
        config.setGroup(args[0]);
        config.setSelfId(args[1]);
        config.setPeers(args[2]);
        config.setStoreBaseDir(args[3]);
        config.setMappedFileSizeForEntryData(Integer.parseInt(args[4]));
        config.setHeartBeatTimeIntervalMs(Integer.parseInt(args[5]));
        DLedgerServer server = new DLedgerServer(config);
        server.registerStateMachine(new Told(args[0], args[1]));
        server.getDLedgerLeaderElector().addRoleChangeHandler(
            new DLedgerLeaderElector.RoleChangeHandler() {
                public void handle(long term, MemberState.Role role) {
                    say("role " + role + " " + term);
                }

                public void startup() {
                }

                public void shutdown() {
                }
            });
        server.startup();
        say("started");
        for (int number = 0; System.in.available() == 0 && number < Integer.parseInt(args[6]); ) {
            Thread.sleep(100);
            if (server.getMemberState().isLeader()) {
                AppendEntryRequest request = new AppendEntryRequest();
                request.setGroup(args[0]);
                request.setRemoteId(args[1]);
                request.setBody((args[1] + "-" + number++).getBytes(StandardCharsets.UTF_8));
                AppendEntryResponse response = server.handleAppend(request).get(10, TimeUnit.SECONDS);
                say("appended " + response.getCode() + " " + response.getIndex());
            }
        }
        while (System.in.read() >= 0) {
            continue;
        }
        server.shutdown();
        System.exit(0);
    }

    static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static class Told implements StateMachine {
        private final String id;

        Told(String group, String self) {
            id = generateDLedgerId(group, self);
        }

        public void onApply(CommittedEntryIterator entries) {
            while (entries.hasNext()) {
                DLedgerEntry entry = entries.next();
                say("applied " + entry.getIndex() + " " + new String(entry.getBody(), StandardCharsets.UTF_8));
            }
        }

        public boolean onSnapshotSave(SnapshotWriter writer) {
            return false;
        }

        public boolean onSnapshotLoad(SnapshotReader reader) {
            return false;
        }

        public void onShutdown() {
        }

        public void onError(DLedgerException error) {
            say("error " + error);
        }

        public String getBindDLedgerId() {
            return id;
        }
    }
}
