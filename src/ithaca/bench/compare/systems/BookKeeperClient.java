import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.Enumeration;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Uses a ledger as it is asked on standard input, a line for each request, and answers a line for each.
 *
 * BookKeeper has no client for Python. A batch is one entry: entries are opaque, so packing records into them is what
 * its users do. Times are those of CLOCK_MONOTONIC in nanoseconds, as Python's.
 *
 * append BYTES WINDOW START STOP           -> durations of the entries that were acknowledged in time
 * pace BYTES PER_SECOND START STOP         -> durations, from when each entry was due
 * fill BYTES COUNT                         -> the ledger's number
 * all LEDGER COUNT START                   -> start end
 * some LEDGER COUNT START STOP SEED        -> start end durations
 * clear                                    -> nothing; all ledgers are deleted
 */
public class BookKeeperClient {
    private static final byte[] PASSWORD = new byte[0];
    private static final int READ_AHEAD_BYTES = 4 << 20;

    private final BookKeeper client;
    private LedgerHandle ledger;
    private byte[] entry = new byte[0];

    private BookKeeperClient(String metadata) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(metadata);
        settings.setNettyMaxFrameSizeBytes(64 << 20);
        client = new BookKeeper(settings);
    }

    public static void main(String[] arguments) throws Exception {
        BookKeeperClient self = new BookKeeperClient(arguments[0]);
        self.prepare(1);
        System.out.println("ready");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ");
            try {
                System.out.println("ok " + self.answer(words));
            } catch (Exception error) {
                System.out.println("failed " + error.toString().replace('\n', ' '));
            }
        }
        self.client.close();
        System.exit(0);
    }

    private String answer(String[] words) throws Exception {
        return switch (words[0]) {
            case "append" -> append(Integer.parseInt(words[1]), Integer.parseInt(words[2]), at(words[3]), at(words[4]));
            case "pace" -> pace(Integer.parseInt(words[1]), Double.parseDouble(words[2]), at(words[3]), at(words[4]));
            case "fill" -> fill(Integer.parseInt(words[1]), Long.parseLong(words[2]));
            case "all" -> all(Long.parseLong(words[1]), Long.parseLong(words[2]), at(words[3]));
            case "some" -> some(Long.parseLong(words[1]), Long.parseLong(words[2]), at(words[3]), at(words[4]),
                Long.parseLong(words[5]));
            case "clear" -> clear();
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    private static long at(String word) {
        return Long.parseLong(word);
    }

    private void prepare(int bytes) throws Exception {
        if (entry.length != bytes) {
            entry = new byte[bytes];
            new Random(7600).nextBytes(entry);
        }
        if (ledger == null) {
            ledger = client.createLedger(2, 2, 2, BookKeeper.DigestType.CRC32C, PASSWORD);
        }
    }

    private record Waiting(long began, CompletableFuture<Long> done) {}

    /** When the entry is acknowledged, the time of that. */
    private CompletableFuture<Long> begin() {
        CompletableFuture<Long> done = new CompletableFuture<>();
        ledger.asyncAddEntry(entry, (code, handle, number, context) -> {
            if (code == 0) {
                done.complete(System.nanoTime());
            } else {
                done.completeExceptionally(new IllegalStateException("an entry was refused with code " + code));
            }
        }, null);
        return done;
    }

    private String append(int bytes, int window, long start, long stop) throws Exception {
        prepare(bytes);
        StringBuilder durations = new StringBuilder();
        ArrayDeque<Waiting> waiting = new ArrayDeque<>();
        until(start);
        while (true) {
            for (long now = System.nanoTime(); waiting.size() < window && now < stop; now = System.nanoTime()) {
                waiting.add(new Waiting(now, begin()));
            }
            Waiting oldest = waiting.poll();
            if (oldest == null) {
                return durations.toString();
            }
            long ended = oldest.done.get(60, TimeUnit.SECONDS);
            if (ended <= stop) {
                durations.append(ended - oldest.began).append(' ');
            }
        }
    }

    private String pace(int bytes, double perSecond, long start, long stop) throws Exception {
        prepare(bytes);
        ConcurrentLinkedQueue<Long> durations = new ConcurrentLinkedQueue<>();
        AtomicLong refused = new AtomicLong();
        long sent = 0;
        for (long due = start; due < stop; due = start + (long) (sent * 1e9 / perSecond)) {
            until(due);
            long began = due;
            begin().whenComplete((ended, error) -> {
                if (error == null) {
                    durations.add(ended - began);
                } else {
                    refused.incrementAndGet();
                }
            });
            sent++;
        }
        for (long giveUp = System.nanoTime() + 30_000_000_000L; durations.size() < sent; Thread.sleep(1)) {
            if (System.nanoTime() > giveUp || refused.get() > 0) {
                throw new IllegalStateException((sent - durations.size()) + " of " + sent + " were not answered");
            }
        }
        StringBuilder line = new StringBuilder();
        durations.forEach(each -> line.append(each).append(' '));
        return line.toString();
    }

    private String fill(int bytes, long count) throws Exception {
        prepare(bytes);
        LedgerHandle filled = ledger;
        ledger = null;
        ArrayDeque<CompletableFuture<Long>> waiting = new ArrayDeque<>();
        LedgerHandle fresh = client.createLedger(2, 2, 2, BookKeeper.DigestType.CRC32C, PASSWORD);
        ledger = fresh;
        for (long number = 0; number < count; number++) {
            waiting.add(begin());
            if (waiting.size() >= 64) {
                waiting.poll().get(60, TimeUnit.SECONDS);
            }
        }
        for (CompletableFuture<Long> each : waiting) {
            each.get(60, TimeUnit.SECONDS);
        }
        long number = fresh.getId();
        fresh.close();
        ledger = filled;
        return Long.toString(number);
    }

    private String all(long number, long count, long start) throws Exception {
        try (LedgerHandle handle = client.openLedger(number, BookKeeper.DigestType.CRC32C, PASSWORD)) {
            until(start);
            long began = System.nanoTime();
            long step = 1;
            for (long next = 0; next < count; ) {
                long last = Math.min(count, next + step) - 1;
                for (Enumeration<LedgerEntry> entries = handle.readEntries(next, last); entries.hasMoreElements(); ) {
                    step = Math.max(1, READ_AHEAD_BYTES / Math.max(1, entries.nextElement().getEntry().length));
                    next++;
                }
            }
            return began + " " + System.nanoTime();
        }
    }

    private String some(long number, long count, long start, long stop, long seed) throws Exception {
        Random random = new Random(seed);
        StringBuilder durations = new StringBuilder();
        try (LedgerHandle handle = client.openLedger(number, BookKeeper.DigestType.CRC32C, PASSWORD)) {
            until(start);
            long began = System.nanoTime();
            long now = began;
            while (now < stop) {
                long place = (long) (random.nextDouble() * count);
                handle.readEntries(place, place).nextElement().getEntry();
                long then = now;
                now = System.nanoTime();
                durations.append(' ').append(now - then);
            }
            return began + " " + now + durations;
        }
    }

    private String clear() throws Exception {
        ledger = null;
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client)) {
            for (long number : admin.listLedgers()) {
                client.deleteLedger(number);
            }
        }
        return "";
    }

    private static void until(long when) throws InterruptedException {
        for (long rest = when - System.nanoTime(); rest > 0; rest = when - System.nanoTime()) {
            TimeUnit.NANOSECONDS.sleep(rest);
        }
    }
}
