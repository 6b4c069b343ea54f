import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * A Java program that shares a lock, Redisson's RLock: java Rival FORM ADDRESS KEY POLL_MS, with the form redisson,
 * redisson-cluster or redisson-cluster-unsharded. It does not poll. It carries out one command a line, and answers each;
 * rival_test.go says which. Times are in nanoseconds of the clock that Go's tests read, too: on Linux, System.nanoTime is
 * CLOCK_MONOTONIC.
 */
public final class Rival {
  private static RedissonClient connect(String form, String address) {
    Config config = new Config().setThreads(4).setNettyThreads(4).setLockWatchdogTimeout(1500);
    if (form.equals("redisson")) {
      config.useSingleServer().setAddress("redis://" + address)
          .setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
    } else {
      config.useClusterServers().addNodeAddress("redis://" + address)
          .setMasterConnectionMinimumIdleSize(2).setMasterConnectionPoolSize(8)
          .setShardedSubscriptionMode(
              form.equals("redisson-cluster-unsharded")
                  ? ShardedSubscriptionMode.OFF
                  : ShardedSubscriptionMode.AUTO);
    }
    return Redisson.create(config);
  }

  /** Waits for the lock. With a TTL of 0 the lock is renewed. */
  private static void acquire(RLock lock, long ttl) {
    if (ttl == 0) {
      lock.lock();
    } else {
      lock.lock(ttl, TimeUnit.MILLISECONDS);
    }
  }

  /** Returns false if the lock was not this thread's. */
  private static boolean release(RLock lock) {
    try {
      lock.unlock();
      return true;
    } catch (IllegalMonitorStateException e) {
      return false;
    }
  }

  /** Adds to a counter that only the lock guards, in many threads, until the time is over. */
  private static void hammer(RLock lock, RBucket<String> counter, int threads, long millis, long ttl)
      throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int number = i;
      Thread thread = new Thread(() -> {
        try {
          while (System.nanoTime() < end) {
            long asked = System.nanoTime();
            acquire(lock, ttl);
            long granted = System.nanoTime();
            String value = counter.get();
            Thread.sleep(1);
            counter.set(Long.toString(value == null ? 1 : Long.parseLong(value) + 1));
            long released = System.nanoTime();
            say(release(lock) ? "turn" : "refused", number, asked, granted, released);
          }
        } catch (InterruptedException | RuntimeException e) {
          say("error", e);
        }
      });
      thread.start();
      all.add(thread);
    }
    for (Thread thread : all) {
      thread.join();
    }
  }

  private static synchronized void say(Object... words) {
    StringBuilder line = new StringBuilder();
    for (Object word : words) {
      line.append(line.length() == 0 ? "" : " ").append(word);
    }
    System.out.println(line.toString().replace('\n', ' '));
    System.out.flush();
  }

  public static void main(String[] args) throws Exception {
    RedissonClient redisson = connect(args[0], args[1]);
    RLock lock = redisson.getLock(args[2]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    say("ready");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] word = line.split(" ");
      try {
        switch (word[0]) {
          case "acquire":
            acquire(lock, Long.parseLong(word[1]));
            say("granted", System.nanoTime());
            break;
          case "try":
            say(lock.tryLock(0, Long.parseLong(word[1]), TimeUnit.MILLISECONDS) ? "granted" : "held", System.nanoTime());
            break;
          case "release":
            long before = System.nanoTime();
            say(release(lock) ? "released" : "refused", before);
            break;
          case "hammer":
            hammer(lock, redisson.getBucket(word[4], StringCodec.INSTANCE),
                Integer.parseInt(word[1]), Long.parseLong(word[2]), Long.parseLong(word[3]));
            say("done", System.nanoTime());
            break;
          default:
            say("error", "no command", line);
        }
      } catch (RuntimeException e) {
        say("error", e);
      }
    }
    Runtime.getRuntime().halt(0); // clients have threads that go on
  }
}
