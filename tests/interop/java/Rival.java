import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.params.SetParams;

/**
 * A Java program that shares locks: java Rival FORM ADDRESS KEY POLL_MS, with the form jedis-set,
 * jedis-setnx, redisson, redisson-cluster or redisson-cluster-unsharded. It carries out one command
 * a line, and answers each; rival.go says which. Times are in nanoseconds of the clock that Go's
 * tests read, too: on Linux, System.nanoTime is CLOCK_MONOTONIC.
 */
public final class Rival {
  /** A lock as one thread uses it. */
  interface Lock {
    /** Waits for the lock. With a TTL of 0 the lock is renewed, if the program can do that. */
    void acquire(long ttl) throws InterruptedException;

    boolean tryAcquire(long ttl);

    /** Returns false if the lock was not this thread's. */
    boolean release();
  }

  /** A program's view of a server: locks and values. */
  interface Server {
    Lock lock();

    String get(String key);

    void set(String key, String value);
  }

  /** The form that most programs with Jedis use, with two ways to acquire the lock. */
  record Jedis(JedisPooled jedis, String key, long poll, boolean oneCommand) implements Server {
    private static final String TAKE =
        "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then"
            + " redis.call('expire', KEYS[1], ARGV[2]) return 1 else return 0 end";
    private static final String DELETE =
        "if redis.call('get', KEYS[1]) == ARGV[1] then"
            + " return redis.call('del', KEYS[1]) else return 0 end";

    @Override
    public Lock lock() {
      return new Lock() {
        private String token = "none";

        @Override
        public void acquire(long ttl) throws InterruptedException {
          while (!tryAcquire(ttl)) {
            Thread.sleep(poll);
          }
        }

        @Override
        public boolean tryAcquire(long ttl) {
          String mine = UUID.randomUUID().toString();
          boolean taken;
          if (oneCommand) {
            taken = "OK".equals(jedis.set(key, mine, SetParams.setParams().nx().px(ttl)));
          } else {
            String seconds = Long.toString((ttl + 999) / 1000);
            taken = Long.valueOf(1).equals(jedis.eval(TAKE, List.of(key), List.of(mine, seconds)));
          }
          if (taken) {
            token = mine;
          }
          return taken;
        }

        @Override
        public boolean release() {
          return Long.valueOf(1).equals(jedis.eval(DELETE, List.of(key), List.of(token)));
        }
      };
    }

    @Override
    public String get(String name) {
      return jedis.get(name);
    }

    @Override
    public void set(String name, String value) {
      jedis.set(name, value);
    }
  }

  /** Redisson's RLock. */
  record WithRedisson(RedissonClient redisson, String key) implements Server {
    @Override
    public Lock lock() {
      RLock lock = redisson.getLock(key);
      return new Lock() {
        @Override
        public void acquire(long ttl) {
          if (ttl == 0) {
            lock.lock();
          } else {
            lock.lock(ttl, TimeUnit.MILLISECONDS);
          }
        }

        @Override
        public boolean tryAcquire(long ttl) {
          try {
            return lock.tryLock(0, ttl == 0 ? -1 : ttl, TimeUnit.MILLISECONDS);
          } catch (InterruptedException e) {
            return false;
          }
        }

        @Override
        public boolean release() {
          try {
            lock.unlock();
            return true;
          } catch (IllegalMonitorStateException e) {
            return false;
          }
        }
      };
    }

    @Override
    public String get(String name) {
      return redisson.<String>getBucket(name, StringCodec.INSTANCE).get();
    }

    @Override
    public void set(String name, String value) {
      redisson.<String>getBucket(name, StringCodec.INSTANCE).set(value);
    }
  }

  private static Server connect(String form, String address, String key, long poll) {
    String[] host = address.split(":");
    switch (form) {
      case "jedis-set":
      case "jedis-setnx":
        JedisPooled jedis = new JedisPooled(host[0], Integer.parseInt(host[1]));
        return new Jedis(jedis, key, poll, form.equals("jedis-set"));
      default:
    }
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
    return new WithRedisson(Redisson.create(config), key);
  }

  /** Adds to a counter that only the lock guards, in many threads, until the time is over. */
  private static void hammer(Server server, int threads, long millis, long ttl, String counter)
      throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    List<Thread> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int number = i;
      Thread thread = new Thread(() -> {
        try {
          Lock lock = server.lock();
          while (System.nanoTime() < end) {
            long asked = System.nanoTime();
            lock.acquire(ttl);
            long granted = System.nanoTime();
            String value = server.get(counter);
            Thread.sleep(1);
            server.set(counter, Long.toString(value == null ? 1 : Long.parseLong(value) + 1));
            long released = System.nanoTime();
            say(lock.release() ? "turn" : "refused", number, asked, granted, released);
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
    Server server = connect(args[0], args[1], args[2], Long.parseLong(args[3]));
    Lock lock = server.lock();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    say("ready");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] word = line.split(" ");
      try {
        switch (word[0]) {
          case "acquire":
            lock.acquire(Long.parseLong(word[1]));
            say("granted", System.nanoTime());
            break;
          case "try":
            say(lock.tryAcquire(Long.parseLong(word[1])) ? "granted" : "held", System.nanoTime());
            break;
          case "release":
            long before = System.nanoTime();
            say(lock.release() ? "released" : "refused", before);
            break;
          case "hammer":
            hammer(server, Integer.parseInt(word[1]), Long.parseLong(word[2]), Long.parseLong(word[3]), word[4]);
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
