/*
 * queue.pml: several processes queue for one lock, wait, are handed it, leave, lose their
 * subscriptions and die, for ever. Nobody is overtaken; nobody sleeps while the lock is free if a
 * message that was not lost could have woken it; a process that leaves leaves nothing behind.
 * A native acquire takes a free lock even if there is a queue. That is no grant, and the process gives
 * the lock back.
 *
 * Mirrors acquire.lua, release.lua and hand_over.lua; acquirer.step, sleep, accept and
 * renewAttempt; Notifier.Hear, Listener.IsUp and AwaitUp. README.md says what is left out, and
 * what each BREAK_ macro breaks.
 */

#ifndef N
#define N 3		/* processes */
#endif
#ifndef DEAD
#define DEAD 0		/* entries of waiters that died, besides those of processes */
#endif
#ifndef CRASHES
#define CRASHES 0	/* of processes */
#endif
#ifndef RESETS
#define RESETS 0	/* of subscriptions */
#endif
#ifndef LOSSES
#define LOSSES 0	/* of messages that were published, and of the queue */
#endif
#ifndef FAILURES
#define FAILURES 0	/* of hand-overs: out of memory, no permission to publish */
#endif
#ifndef LAPSES
#define LAPSES 1	/* of deadlines, of processes that stop for long */
#endif
#ifndef EARLY
#define EARLY 0		/* looks without a reason */
#endif
#ifndef REPLACED
#define REPLACED 0	/* attempts that give way to others with other options */
#endif

#ifndef PROMISES
#define PROMISES 0	/* the processes below this number promise to look at a certain time */
#endif

#ifndef NATIVE
#define NATIVE 1	/* whether they acquire natively, too */
#endif

#ifndef TIE
#define TIE 0		/* which of two entries in one place is first: 0 the former attempt's */
#endif

/* Numbers below N are processes; those from N on are dead waiters, which have nothing but an entry. An
 * entry of the queue is such a number, or FORMER of a process. */
#define ALL (N + DEAD)
#define FREE ALL
#define FORMER(P) (ALL + 1 + (P))	/* the attempt that P has replaced */
mtype = { idle, trying, joining, asking, resting, dead };
/* taken: the reply "held", or that SET did nothing. barged: SET was done, and there is a queue. */
mtype = { unanswered, granted, taken, barged, queued, gone, released };
/* A process with a hold is in two of the hold's states (internal/engine/hold.go). held is also a claimed one;
 * over is also a retired one, and an attempt that is taken back. */
mtype = { held, over };

/* The server. */
byte owner = FREE;
bool mark;
bool fresh;		/* the value's fence is 0: a native acquire set it */
bool in_queue[ALL];
bool former_queued[ALL];	/* the entry of the attempt that was replaced, in the same place */
byte place[ALL] = ALL;	/* the order, by score: low ones first */
bool heard[ALL];	/* the server has its subscription; never for dead waiters */

/* The processes. */
mtype stage[N] = idle;
mtype answer[N] = unanswered;
bool placed[N];		/* it was told that it is queued: it looks from now on */
bool waiting[N];	/* it will wait if it does not get the lock */
bool missed[N];		/* its subscription was interrupted */
/* When it is to look. Another may have taken the lock after it expired. */
#define NEVER	0
#define LATER	1	/* when the lock expires */
#define NOW	2	/* the lock has expired */
byte due[N];
byte standby[N];	/* a message that says so */
#if PROMISES
/* Whether it has promised to look at a time, or still has to. */
#define NOTHING	0
#define AHEAD	1	/* the time is to come */
#define PAST	2	/* it has passed, and there was no answer since */
#define KEPT	3	/* the server relies on it still, and the process takes it for kept: only in broken variants */
byte promise[N];
#endif
bool grant[N];		/* a message: the lock is yours */
bool lapsed[N];		/* what was granted last has expired */
bool former[N];		/* an attempt of its was replaced, and is to be taken back */
bool replacing[N];	/* its new attempt is not in the queue yet; the former stands for it */

byte crashes, resets, losses, failures, lapses, early, replaced;
/* A message or the queue was lost: only a look after long may help. */
bool excused;
/* The first live waiter died; no other has been told when to look since. Only a look after long may help
 * until then. */
bool bereft;

byte i, k, first, follower, alive;
bool done, led;

bool nobody_is_passed = true;
bool no_lost_wakeup = true;
bool no_orphan_lock = true;
bool no_ghost_in_queue = true;
bool believer_owns_lock = true;
bool no_phantom_grant = true;
bool dead_are_skipped = true;
bool release_is_done = true;
bool look_serves_somebody = true;

/* Whose entry, or lock, it is. */
#define of(E)	((E) > ALL -> (E) - ALL - 1 : (E))

/* entry makes E first, follower or alive, if it is the one. */
inline entry(E, SELF) {
	if
	:: first == FREE -> first = E
	:: first != FREE && follower == FREE -> follower = E
	:: else
	fi;
	if
	:: alive == FREE && (heard[of(E)] || E == SELF) -> alive = E
	:: else
	fi
}

/* first_waiter sets first to the first entry of the queue, follower to the second, and alive to the first
 * that is heard or is SELF. Each is FREE if there is none. */
inline first_waiter(SELF) {
	first = FREE; follower = FREE; alive = FREE;
	for (i : 0 .. ALL - 1) {
		if
		:: place[i] < ALL ->
			if
			:: TIE == 0 && former_queued[place[i]] -> entry(FORMER(place[i]), SELF)
			:: else
			fi;
			if
			:: in_queue[place[i]] -> entry(place[i], SELF)
			:: else
			fi;
			if
			:: TIE == 1 && former_queued[place[i]] -> entry(FORMER(place[i]), SELF)
			:: else
			fi
		:: else
		fi
	}
}

/* enter gives P a place behind all others, unless it has one. */
inline enter(P) {
	i = 0;
	do
	:: i == ALL || place[i] == P -> break
	:: i < ALL && place[i] == ALL -> place[i] = P; break
	:: else -> i++
	od
}

/* forgo gives up P's place, unless its former attempt is there. */
inline forgo(P) {
	k = 0;
	if
	:: former_queued[P] -> k = ALL + 1
	:: else
	fi;
	for (i : 0 .. ALL - 1) {
		if
		:: place[i] == P && k == 0 -> k = 1
		:: else
		fi;
		if
		:: k == 1 && i < ALL - 1 -> place[i] = place[i + 1]
		:: k == 1 && i == ALL - 1 -> place[i] = ALL
		:: else
		fi
	}
}

/* drop takes the first entry out of the queue. */
inline drop() {
	if
	:: first > ALL -> former_queued[of(first)] = false
	:: first < N -> in_queue[first] = false
	:: else -> in_queue[first] = false; forgo(first)
	fi
}

/* give sets the lock to E, a process or FORMER of one. */
inline give(E, MARK) {
	k = 1;
	for (i : 0 .. ALL - 1) {
		if
		:: place[i] == of(E) -> k = 0
		:: else ->
			nobody_is_passed = !(k && place[i] < ALL && (in_queue[place[i]] || place[i] < N && replacing[place[i]] && stage[place[i]] != dead));
			assert(nobody_is_passed)
		fi
	}
	owner = E; mark = MARK; fresh = false;
	if
	:: E < N -> lapsed[E] = false
	:: else
	fi
}

inline free_lock() { owner = FREE; mark = false; fresh = false }

/* expire frees the lock; a waiter that was to look then does, even if another takes the lock first. */
inline expire() {
	free_lock();
	for (i : 0 .. N - 1) {
		due[i] = (due[i] == LATER -> NOW : due[i]);
		standby[i] = (standby[i] == LATER -> NOW : standby[i])
	}
}

/* stand_by tells the first waiter that is heard to look when the lock expires. Nobody reads what is
 * sent to a former attempt. */
inline stand_by() {
#ifndef BREAK_NO_STANDBY
	first_waiter(FREE);
#ifdef BREAK_STANDBY_TO_NEXT
	alive = (first != FREE && heard[of(first)] -> first : FREE);
#endif
	if
	:: alive < N && (stage[of(alive)] == asking || stage[of(alive)] == resting) -> standby[of(alive)] = LATER; bereft = false
	:: alive < N && stage[of(alive)] == dead -> bereft = true	/* its connection is not closed yet */
	:: else
	fi
#else
	skip
#endif
}

/* mourn sets bereft if P, which dies, is the first live waiter: those behind it relied on it. */
inline mourn(P) {
	k = 0;
	for (i : 0 .. ALL - 1) {
		if
		:: place[i] == P -> bereft = bereft || k == 0 && (in_queue[P] || former_queued[P])
		:: place[i] != P && place[i] < N -> k = k || stage[place[i]] != dead && (in_queue[place[i]] || former_queued[place[i]])
		:: else
		fi
	}
}

/* unguarded: the former attempt E is gone by a fault, and can keep no place. */
inline unguarded(E) {
	if
	:: E > ALL -> replacing[of(E)] = false
	:: else
	fi
}

/* stand_by_promised is stand_by, but tells nobody if the follower is heard and is yet to look, as it has promised. */
inline stand_by_promised() {
#if PROMISES
	if
	:: follower < N && heard[of(follower)] && (promise[of(follower)] == AHEAD || promise[of(follower)] == KEPT) -> skip
	:: else -> stand_by()
	fi
#else
	stand_by()
#endif
}

/* serve is hand_over.lua's: SELF is answered directly, or FREE. Sets done when that is served. */
inline serve(SELF) {
	done = false;
	do
	:: true ->
		first_waiter(FREE);
		if
		:: first == FREE -> free_lock(); break
		:: else
		fi;
		drop();
#ifdef BREAK_UNMARKED_HAND_OVER
		follower = FREE;
#endif
		if
		:: first == SELF ->
			give(first, follower != FREE);
#ifndef BREAK_NO_STANDBY_ON_DIRECT_GRANT
			if
			:: follower != FREE -> stand_by()
			:: else
			fi;
#endif
			done = true;
			break
#ifdef BREAK_DEAD_NOT_SKIPPED
		:: first != SELF ->
#else
		:: first != SELF && heard[of(first)] ->
#endif
			dead_are_skipped = heard[of(first)];
			assert(dead_are_skipped);
			give(first, follower != FREE);
			if
			:: first < N && (stage[of(first)] == asking || stage[of(first)] == resting) -> grant[of(first)] = true
			:: else
			fi;
			if
			:: follower != FREE -> stand_by_promised()
			:: else
			fi;
			break
#ifndef BREAK_DEAD_NOT_SKIPPED
		:: else -> unguarded(first)
#endif
		fi
	od
}

/* fail is serve that fails after it removed the first, and before it announces. */
inline fail() {
	first_waiter(FREE);
	if
	:: first != FREE -> drop(); unguarded(first)
	:: else
	fi;
#ifdef BREAK_ANNOUNCED_BEFORE_SET
	if
	:: first < N && heard[first] && (stage[first] == asking || stage[first] == resting) -> grant[first] = true; lapsed[first] = false
	:: else
	fi;
#endif
	failures++; excused = true; done = false;
	free_lock()
}

/* run_native is a native acquire. Q: the queue has a tombstone. */
inline run_native(P, Q) {
	first_waiter(FREE);
	if
	:: owner != FREE -> answer[P] = taken
#ifdef BREAK_BARGED_BELIEVED
	:: owner == FREE -> give(P, false); fresh = true; answer[P] = granted
#else
	:: owner == FREE && first == FREE && !Q -> give(P, false); fresh = true; answer[P] = granted
	:: owner == FREE && !(first == FREE && !Q) -> owner = P; fresh = true; answer[P] = barged
#endif
	fi
}

/* run_acquire is acquire.lua for P: T, a try; otherwise it waits, or looks. */
inline run_acquire(P, T) {
	replacing[P] = false;
	first_waiter(FREE);
	if
#ifdef BREAK_BARGING
	:: owner == FREE && !placed[P] -> give(P, first != FREE); answer[P] = granted
#else
	:: owner == FREE && !placed[P] && first == FREE -> give(P, false); answer[P] = granted
#endif
#ifdef BREAK_BARGER_ASKS
	:: owner == P && fresh -> give(P, first != FREE); answer[P] = granted
#endif
	:: owner == P -> answer[P] = granted; lapsed[P] = false
	:: else ->
		if
		:: T ->
			answer[P] = taken;
			if
			:: owner == FREE ->
				serve(FREE);
				if
				:: owner == FREE -> give(P, false); answer[P] = granted
				:: else
				fi
			:: else
			fi
		:: !T && placed[P] && !in_queue[P] -> answer[P] = gone
		:: else ->
#if PROMISES
			/* An answer from before that time keeps no promise. */
#ifdef BREAK_EARLY_LOOK_COUNTS
			promise[P] = (!placed[P] && P < PROMISES -> AHEAD : (promise[P] == AHEAD -> KEPT : NOTHING));
#elif defined(BREAK_PAST_PROMISE_BELIEVED)
			promise[P] = (!placed[P] && P < PROMISES -> AHEAD : (promise[P] == PAST -> KEPT : promise[P]));
#else
			promise[P] = (!placed[P] && P < PROMISES -> AHEAD : (promise[P] == PAST -> NOTHING : promise[P]));
#endif
#endif
			enter(P);
			in_queue[P] = true;
			if
			:: owner == FREE ->
				serve(P);
				look_serves_somebody = owner != FREE;
				assert(look_serves_somebody);
				answer[P] = (done -> granted : queued)
			:: else -> answer[P] = queued
			fi;
			if
#ifdef BREAK_QUEUED_UNMARKED
			:: answer[P] == queued && placed[P] -> mark = true
#else
			:: answer[P] == queued -> mark = true
#endif
			:: else
			fi;
			/* What it is to wait for, if it reads this. */
			first_waiter(P);
#ifdef BREAK_DEAD_COUNT_IN_RANK
			due[P] = (answer[P] == queued && first == P -> LATER : NEVER);
#else
			due[P] = (answer[P] == queued && alive == P -> LATER : NEVER);
#endif
			bereft = bereft && due[P] == NEVER
		fi
	fi
}

inline leave(E) {
	first_waiter(E);
#ifdef BREAK_ONLY_FIRST_LEADS
	led = first == E;
#else
	led = alive == E;
#endif
	k = 0;
	if
	:: E < N && in_queue[of(E)] -> in_queue[of(E)] = false; k = 1
	:: E > ALL && former_queued[of(E)] -> former_queued[of(E)] = false; k = 1
	:: else
	fi;
#ifndef BREAK_LEAVES_SILENTLY
	first_waiter(FREE);
	if
	:: k && led && first != FREE ->
		if
		:: owner == FREE -> serve(FREE)
		:: else -> stand_by()
		fi
	:: else
	fi
#endif
}

/* run_release is release.lua for P, with its member of the queue. F: the hand-over fails. */
inline run_release(P, F) {
	if
#ifdef BREAK_CANCEL_ONLY_LEAVES
	:: owner == P && !waiting[P] ->
#else
	:: owner == P ->
#endif
		if
#ifndef BREAK_MARK_NOT_CHECKED
		/* A lock that was taken in spite of a queue has no mark, unless a waiter has looked since. */
#ifdef BREAK_FRESH_NOT_SERVED
		:: mark && !F -> serve(FREE)
#else
		:: (mark || fresh) && !F -> serve(FREE)
#endif
		:: (mark || fresh) && F -> fail();
#ifdef BREAK_RELEASE_FAILS_WITH_HAND_OVER
			owner = P
#endif
#endif
		:: else -> free_lock()
		fi
	:: else -> leave(P)
	fi;
	answer[P] = released
}

/* quiet: P does nothing unless it is told, or looks after long. */
#define quiet(P)	(stage[P] == dead || !former[P] && (stage[P] == idle || stage[P] == resting && heard[P] && \
			 !grant[P] && standby[P] == NEVER && !missed[P] && due[P] != NOW && !owes(P)))
#if PROMISES
#define owes(P)	(promise[P] == AHEAD || promise[P] == PAST)
#else
#define owes(P)	false
#endif
#if N == 2
#define all_quiet	(quiet(0) && quiet(1))
#elif N == 3
#define all_quiet	(quiet(0) && quiet(1) && quiet(2))
#else
#define all_quiet	(quiet(0) && quiet(1) && quiet(2) && quiet(3))
#endif

inline check() {
	for (i : 0 .. N - 1) {
		no_orphan_lock = !(owner == i && (stage[i] == idle || stage[i] == joining && !placed[i]));
		assert(no_orphan_lock);
		no_orphan_lock = !(owner == FORMER(i) && !former[i]);
		assert(no_orphan_lock);
		no_ghost_in_queue = !(in_queue[i] && (stage[i] == idle || stage[i] == trying || stage[i] == held));
		assert(no_ghost_in_queue);
		no_ghost_in_queue = !(former_queued[i] && !former[i]);
		assert(no_ghost_in_queue);
		believer_owns_lock = !(stage[i] == held && owner != i);
		assert(believer_owns_lock);
		no_phantom_grant = !(grant[i] && !lapsed[i] && owner != i);
		assert(no_phantom_grant);
		no_lost_wakeup = !(stage[i] == resting && owner == FREE && all_quiet && !excused && !bereft);
		assert(no_lost_wakeup)
	}
	i = 0; k = 0; first = 0; follower = 0; alive = 0; done = false; led = false
}

inline clear(P) {
#if PROMISES
	promise[P] = NOTHING;
#endif
	answer[P] = unanswered; due[P] = NEVER; standby[P] = NEVER; grant[P] = false; lapsed[P] = false
}
inline hold(P) { clear(P); forgo(P); stage[P] = held; placed[P] = false; waiting[P] = false; replacing[P] = false }

#define me _pid

active [N] proctype process() {
end:	do
	/* It tries; or asks at once, being subscribed. */
	:: d_step { stage[me] == idle && !former[me] -> printf("%d tries\n", me); stage[me] = trying }
	:: d_step { stage[me] == idle && !former[me] && heard[me] && !missed[me] ->
		printf("%d would wait\n", me); stage[me] = asking; waiting[me] = true }
#if NATIVE
	:: d_step { stage[me] == trying && answer[me] == unanswered ->
		run_native(me, false); printf("%d is answered natively %e\n", me, answer[me]); check() }
	:: d_step { stage[me] == trying && answer[me] == unanswered && owner == FREE ->
		run_native(me, true); printf("%d is answered natively %e\n", me, answer[me]); check() }
	:: d_step { stage[me] == trying && answer[me] == barged ->
#ifdef BREAK_BARGER_ASKS
		run_acquire(me, true);
#else
		clear(me); stage[me] = over;
#endif
		printf("%d gives it back\n", me); check() }
#endif
	:: d_step { stage[me] == trying && answer[me] == unanswered ->
		run_acquire(me, true); printf("%d is answered %e\n", me, answer[me]); check() }
	:: atomic { stage[me] == trying && answer[me] == taken ->
		clear(me);
		if
		:: stage[me] = idle
		:: stage[me] = joining; waiting[me] = true; printf("%d joins\n", me)
		fi }
	:: d_step { (stage[me] == trying || stage[me] == asking) && answer[me] == granted && !lapsed[me] ->
		hold(me); printf("%d holds the lock\n", me); check() }
	:: d_step { (stage[me] == trying || stage[me] == asking) && answer[me] == granted && lapsed[me] ->
		clear(me); stage[me] = over; printf("%d is late\n", me); check() }

	/* It subscribes, and when that is confirmed asks for a place, or looks. */
#ifdef BREAK_SUBSCRIBED_AFTER_CHECK
	:: d_step { stage[me] == joining -> stage[me] = asking }
	:: d_step { stage[me] == resting && !heard[me] -> heard[me] = true; check() }
#else
	:: d_step { stage[me] == joining -> heard[me] = true; missed[me] = false; stage[me] = asking; printf("%d is subscribed\n", me); check() }
#endif
	:: d_step { stage[me] == asking && answer[me] == unanswered ->
		missed[me] = missed[me] && !heard[me];
		run_acquire(me, false); printf("%d is answered %e\n", me, answer[me]); check() }
	:: d_step { stage[me] == asking && answer[me] == queued ->
		answer[me] = unanswered; placed[me] = true;
#ifdef BREAK_SUBSCRIBED_AFTER_CHECK
		stage[me] = resting;
#else
		stage[me] = (heard[me] -> resting : joining);
#endif
		check() }
	:: d_step { stage[me] == asking && answer[me] == gone ->	/* another token, the same place */
		clear(me); placed[me] = false; check() }

	/* It rests, until a message, or a time to look. */
	:: d_step { stage[me] == resting && grant[me] && !lapsed[me] -> hold(me); printf("%d is told that it holds the lock\n", me); check() }
	:: d_step { stage[me] == resting && grant[me] && lapsed[me] -> grant[me] = false; stage[me] = asking; printf("%d is told too late\n", me); check() }
	:: d_step { stage[me] == resting && standby[me] != NEVER ->
		due[me] = (due[me] == NOW -> NOW : standby[me]); standby[me] = NEVER; printf("%d stands by\n", me); check() }
	:: d_step { stage[me] == resting && due[me] == NOW -> due[me] = NEVER; stage[me] = asking; printf("%d looks, being due\n", me); check() }
#ifdef BREAK_NO_LOOK_AFTER_RESET
	:: d_step { stage[me] == resting && missed[me] -> missed[me] = false; check() }
#else
	:: d_step { stage[me] == resting && missed[me] && heard[me] -> missed[me] = false; stage[me] = asking; printf("%d looks after a reset\n", me); check() }
#endif
#if PROMISES
	:: d_step { promise[me] == AHEAD -> promise[me] = PAST; printf("the time that %d has promised comes\n", me); check() }
#ifdef BREAK_EARLY_LOOK_COUNTS
	:: d_step { promise[me] == KEPT -> promise[me] = NOTHING; check() }
#endif
	:: d_step { stage[me] == resting && promise[me] == PAST -> stage[me] = asking; due[me] = NEVER; printf("%d looks, as promised\n", me) }
#endif
	:: d_step { early < EARLY && stage[me] == resting -> early++; stage[me] = asking; due[me] = NEVER; printf("%d looks early\n", me) }
	:: d_step { stage[me] == resting && all_quiet -> stage[me] = asking; due[me] = NEVER; printf("%d looks after long\n", me) }

#ifdef BREAK_RENEWAL_UNMARKS
	:: d_step { stage[me] == held && fresh && owner == me -> fresh = false; mark = false; printf("%d renews\n", me); check() }
#elif NATIVE
	/* Its first renewal writes the fence into the value. */
	:: d_step { stage[me] == held && fresh && owner == me -> fresh = false; printf("%d renews\n", me); check() }
#endif

	/* It releases, or leaves, whatever it is doing. */
	:: d_step { stage[me] == held || stage[me] == resting || stage[me] == asking || stage[me] == joining ->
		clear(me); stage[me] = over; replacing[me] = false; printf("%d ends\n", me); check() }
#ifdef BREAK_DELETED_WHEN_MARKED
	:: d_step { stage[me] == held && owner == me ->
#else
	:: d_step { stage[me] == held && owner == me && !mark ->
#endif
		free_lock(); clear(me); stage[me] = idle; printf("%d releases natively\n", me); check() }
	:: d_step { stage[me] == over && answer[me] == unanswered ->
		run_release(me, false);
		printf("%d is answered %e\n", me, answer[me]);
		release_is_done = owner != me;
		check() }
	:: d_step { stage[me] == over && answer[me] == unanswered && failures < FAILURES && owner == me && (mark || fresh) ->
		run_release(me, true);
		printf("%d is answered %e; the hand-over failed\n", me, answer[me]);
		release_is_done = owner != me;
		assert(release_is_done);
		check() }
	:: d_step { stage[me] == over && answer[me] == released ->
		clear(me); forgo(me); stage[me] = idle; placed[me] = false; waiting[me] = false; replacing[me] = false; check() }

	/* Another attempt takes the place of this one, which is queued, or has been given the lock. */
	:: d_step { replaced < REPLACED && stage[me] == resting && !former[me] && (in_queue[me] || owner == me) ->
		replaced++;
		former[me] = true; replacing[me] = true;
		former_queued[me] = in_queue[me]; in_queue[me] = false;
		owner = (owner == me -> FORMER(me) : owner);
		clear(me); placed[me] = false; stage[me] = asking;
		printf("%d begins another attempt in its place\n", me);
		check() }
	/* When that has been answered, or is given up, the former is taken back in the background. */
#ifdef BREAK_REPLACED_LEAVES_FIRST
	:: d_step { former[me] && stage[me] != dead ->
#else
	:: d_step { former[me] && stage[me] != dead && !(stage[me] == asking && !placed[me] && answer[me] == unanswered) ->
#endif
		if
		:: owner == FORMER(me) && mark -> serve(FREE)
		:: owner == FORMER(me) && !mark -> free_lock()
		:: else -> leave(FORMER(me))
		fi;
		former[me] = false;
		if
		:: !waiting[me] -> forgo(me)
		:: else
		fi;
		printf("%d takes the former attempt back\n", me);
		check() }

	/* It stops for longer than its lease lasts. */
	:: d_step { lapses < LAPSES && stage[me] == held -> lapses++; stage[me] = over; printf("%d loses its lease\n", me); check() }

	/* It dies; sooner or later, or never, the server sees its connection closed. */
	:: d_step { crashes < CRASHES && stage[me] != dead ->
		crashes++; mourn(me); clear(me); stage[me] = dead; placed[me] = false; missed[me] = false; printf("%d dies\n", me); check() }
	:: d_step { stage[me] == dead && heard[me] -> heard[me] = false; printf("%d's connection is closed\n", me); check() }
	/* Scripts that enter the queue remove old entries of dead waiters. */
	:: d_step { stage[me] == dead && !heard[me] && (in_queue[me] || former_queued[me]) ->
		in_queue[me] = false; former_queued[me] = false; printf("%d's entry is removed\n", me); check() }

	/* Its subscription is reset: what was not read is lost. It comes back. */
	:: d_step { resets < RESETS && heard[me] && stage[me] != dead ->
		resets++; heard[me] = false; missed[me] = true; grant[me] = false; standby[me] = NEVER;
		printf("%d's subscription is reset\n", me); check() }
	:: d_step { missed[me] && !heard[me] && stage[me] != dead -> heard[me] = true; printf("%d is subscribed again\n", me); check() }
	:: d_step { losses < LOSSES && (grant[me] || standby[me] != NEVER) ->
		losses++; excused = true; grant[me] = false; standby[me] = NEVER; printf("a message to %d is lost\n", me); check() }

	:: d_step { owner == FORMER(me) ->
		replacing[me] = false;
		expire();
		printf("the lock of %d's former attempt expires\n", me); check() }

	/* Its lock expires, when it does not believe in it: lease.pml shows that. */
	:: d_step { owner == me && stage[me] != held ->
		lapsed[me] = grant[me] || answer[me] == granted;
		expire();
		printf("the lock of %d expires\n", me); check() }
	od
}

#if DEAD > 0
/* dead_waiter enters the queue while the lock is held, and dies; its connection is closed before anything
 * else happens. Once its entry has been dropped or removed, it stands for the next such waiter. */
active [DEAD] proctype dead_waiter() {
end:	do
	:: d_step { owner != FREE && !in_queue[me] ->
		enter(me); in_queue[me] = true; mark = true; printf("%d enters the queue and dies\n", me); check() }
	:: d_step { in_queue[me] -> in_queue[me] = false; forgo(me); printf("%d's entry is removed\n", me); check() }
	od
}
#endif

#if LOSSES > 0
active proctype queue_is_lost() {
	d_step { losses < LOSSES && (in_queue[0] || in_queue[1] || in_queue[N - 1]) ->
		losses++; excused = true;
		for (i : 0 .. ALL - 1) {
			in_queue[i] = false
		}
		for (i : 0 .. N - 1) {
			former_queued[i] = false; replacing[i] = false
		}
		printf("the queue is lost\n");
		check() }
}
#endif
