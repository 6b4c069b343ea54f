import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The process of the contestant Redisson, in the cells free, contended and readwrite. It corresponds to worker.go,
 * cell_free.go and cell_contended.go. It does one job after another, so that code is compiled only once. Redisson has
 * its defaults, except for the lease time; its watchdog renews locks.
 */
public final class Contestant {
  private static final long TTL_MS = 10_000; // as in contestants.go

  /** The job, as in job.go. Times are in nanoseconds. */
  static final class Job {
    @SerializedName("Kind") String kind;
    @SerializedName("Addrs") List<String> addrs;
    @SerializedName("Board") String board;
    @SerializedName("Names") String names;
    @SerializedName("Goroutines") int threads;
    @SerializedName("Readers") int readers;
    @SerializedName("For") long time;
    @SerializedName("Hold") long hold;
    @SerializedName("Think") long think;
    @SerializedName("Warm") long warm;
  }

  /** The outcome, as in job.go. */
  static final class Outcome {
    @SerializedName("Cycles") long cycles;
    @SerializedName("Written") long written;
    @SerializedName("Took") long took;
    @SerializedName("CPU") long cpu;
    @SerializedName("Latencies") List<Long> latencies = new ArrayList<>();
    @SerializedName("Handovers") List<Long> handovers = new ArrayList<>();
    @SerializedName("Waits") List<Long> waits = new ArrayList<>();
    @SerializedName("Writers") List<Long> writers = new ArrayList<>();
    @SerializedName("Grants") List<Long> grants = new ArrayList<>();
    @SerializedName("Errors") int errors;
    @SerializedName("Error") String error = "";

    void fail(Exception e) {
      errors++;
      error = e.toString();
    }
  }

  /** The counters that all processes of a turn share, as in board.go. */
  static final class Board {
    private static final VarHandle LONG =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int INSIDE = 0;
    private static final int OVER = 8;
    private static final int WAITING = 16;
    private static final int RELEASED = 24;
    private static final int OVERLAPS = 32;
    private static final long EXCLUSIVE = 1L << 32;

    private final ByteBuffer memory;

    Board(String path) throws Exception {
      try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
        memory = file.map(MapMode.READ_WRITE, 0, 40);
      }
    }

    private long add(int counter, long n) {
      return (long) LONG.getAndAdd(memory, counter, n) + n;
    }

    private long get(int counter) {
      return (long) LONG.getVolatile(memory, counter);
    }

    void end() {
      LONG.setVolatile(memory, OVER, 1L);
    }

    void waits(int n) {
      add(WAITING, n);
    }

    /** Returns how long ago the last holder called release, or -1 if nobody was waiting then. */
    long enter(boolean reads) {
      long now = System.nanoTime();
      long mine = reads ? 1 : EXCLUSIVE;
      long inside = add(INSIDE, mine);
      if (inside != mine && (!reads || inside >= EXCLUSIVE) && get(OVER) == 0) {
        add(OVERLAPS, 1);
      }
      long released = (long) LONG.getAndSet(memory, RELEASED, 0L);
      return released != 0 && inside == mine ? now - released : -1;
    }

    void leave(boolean reads) {
      if (add(INSIDE, reads ? -1 : -EXCLUSIVE) == 0 && get(WAITING) > 0) {
        LONG.setVolatile(memory, RELEASED, System.nanoTime());
      }
    }
  }

  private final Job job;
  private final Board board;
  private final RedissonClient redisson;
  private final Runnable start; // says that this process is ready, and waits for "go"

  private Contestant(Job job, RedissonClient redisson, Runnable start) throws Exception {
    this.job = job;
    this.redisson = redisson;
    this.start = start;
    board = new Board(job.board);
  }

  private static RedissonClient connect(Job job) {
    Config config = new Config().setLockWatchdogTimeout(TTL_MS);
    config.useSingleServer().setAddress("redis://" + job.addrs.get(0));
    return Redisson.create(config);
  }

  /**
   * Uses the locks as the cells do, until that has taken some processor time, so that they are compiled. This takes
   * longer on a busy machine.
   */
  private void warm() throws InterruptedException {
    long end = System.nanoTime() + 4 * job.warm;
    for (int threads = 1; cpu() < job.warm && System.nanoTime() < end; threads = threads < 64 ? 8 * threads : 1) {
      List<RLock> free = new ArrayList<>();
      List<RLock> contended = new ArrayList<>();
      List<RLock> readers = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        free.add(redisson.getLock(job.names + "-warm-" + i));
        contended.add(redisson.getLock(job.names + "-warm"));
        readers.add(redisson.getReadWriteLock(job.names + "-warm-read").readLock());
      }
      spin(free, job.warm / 10);
      spin(contended, job.warm / 20);
      spin(readers, job.warm / 20);
    }
  }

  /** Each thread acquires and releases a lock of its own. */
  private Outcome free() throws InterruptedException {
    List<RLock> locks = new ArrayList<>();
    for (int i = 0; i < job.threads; i++) {
      locks.add(redisson.getLock(job.names + "-" + i));
    }
    spin(locks, job.time / 4);
    start.run();
    long cpu = cpu();
    Outcome o = spin(locks, job.time);
    o.cpu = cpu() - cpu;
    return o;
  }

  private static Outcome spin(List<RLock> locks, long time) throws InterruptedException {
    Outcome all = new Outcome();
    long began = System.nanoTime();
    List<Thread> threads = new ArrayList<>();
    for (RLock lock : locks) {
      Thread thread = new Thread(() -> {
        long cycles = 0;
        List<Long> latencies = new ArrayList<>();
        Exception failed = null;
        try {
          for (long now = System.nanoTime(); now - began < time; cycles++) {
            lock.lock();
            lock.unlock();
            long asked = now;
            now = System.nanoTime();
            if (locks.size() == 1) {
              latencies.add(now - asked);
            }
          }
        } catch (RuntimeException e) {
          failed = e;
        }
        synchronized (all) {
          all.cycles += cycles;
          all.latencies.addAll(latencies);
          if (failed != null) {
            all.fail(failed);
          }
        }
      });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    all.took = System.nanoTime() - began;
    return all;
  }

  private volatile boolean over;
  private final Outcome outcome = new Outcome(); // of contended; guarded by itself

  /** Threads compete for one lock, or for the sides of one read-write lock. */
  private Outcome contended() throws InterruptedException {
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < job.threads; i++) {
      RLock lock = side(job.names, i);
      boolean reads = i < job.readers;
      threads.add(new Thread(() -> compete(lock, reads)));
    }
    start.run();
    long cpu = cpu();
    long began = System.nanoTime();
    for (Thread thread : threads) {
      thread.start();
    }
    pause(job.time);
    board.end(); // before anybody is interrupted
    over = true;
    synchronized (outcome) {
      outcome.took = System.nanoTime() - began;
    }
    for (Thread thread : threads) {
      thread.interrupt();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    outcome.cpu = cpu() - cpu;
    return outcome;
  }

  private RLock side(String name, int thread) {
    if (job.readers == 0) {
      return redisson.getLock(name);
    }
    RReadWriteLock lock = redisson.getReadWriteLock(name);
    return thread < job.readers ? lock.readLock() : lock.writeLock();
  }

  private void compete(RLock lock, boolean reads) {
    long cycles = 0;
    Exception failed = null;
    while (!over && failed == null) {
      pause(ThreadLocalRandom.current().nextLong(job.think));
      if (over) {
        break;
      }
      long asked = System.nanoTime();
      board.waits(1);
      try {
        lock.lockInterruptibly();
      } catch (InterruptedException | RuntimeException e) {
        sample(System.nanoTime() - asked, -1, reads);
        if (!over) {
          failed = e;
        }
        continue;
      } finally {
        board.waits(-1);
      }
      long handover = board.enter(reads);
      long wait = System.nanoTime() - asked;
      pause(job.hold);
      board.leave(reads);
      boolean late = over;
      try {
        lock.unlock();
      } catch (RuntimeException e) {
        if (!late && !over) {
          failed = e;
          continue;
        }
      }
      sample(wait, handover, reads);
      if (!late) {
        cycles++;
      }
    }
    synchronized (outcome) {
      outcome.cycles += cycles;
      outcome.written += job.readers > 0 && !reads ? cycles : 0;
      outcome.grants.add(cycles);
      if (failed != null) {
        outcome.fail(failed);
      }
    }
  }

  private void sample(long wait, long handover, boolean reads) {
    synchronized (outcome) {
      (job.readers > 0 && !reads ? outcome.writers : outcome.waits).add(wait);
      if (handover >= 0) {
        outcome.handovers.add(handover);
      }
    }
  }

  /** Sleeps for some nanoseconds, or until an interrupt. Thread.sleep takes only milliseconds. */
  private static void pause(long nanos) {
    long end = System.nanoTime() + nanos;
    for (long left = nanos; left > 0 && !Thread.currentThread().isInterrupted(); left = end - System.nanoTime()) {
      LockSupport.parkNanos(left);
    }
  }

  private static long cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    Gson gson = new Gson();
    Runnable start = () -> {
      System.out.println("ready");
      try {
        in.readLine();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    };
    RedissonClient redisson = null;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Job job = gson.fromJson(line, Job.class);
      boolean first = redisson == null;
      if (first) {
        redisson = connect(job);
      }
      Contestant c = new Contestant(job, redisson, start);
      if (first) {
        c.warm();
      }
      System.out.println(gson.toJson(job.kind.equals("free") ? c.free() : c.contended()));
    }
    Runtime.getRuntime().halt(0); // Redisson's threads still run
  }
}
