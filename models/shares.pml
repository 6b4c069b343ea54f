/*
 * shares.pml: several processes read and write under one read-write lock, wait, are granted it,
 * leave, lose their subscriptions and die, for ever. A writer is alone; nobody is overtaken; adjacent
 * readers are granted it together; nobody sleeps while there is room for the first waiter if a message
 * that was not lost could have woken it; a dead process is in the way only until its own hold expires.
 *
 * Mirrors share_acquire.lua, share_release.lua, share_renew.lua and share_weigh.lua, serve and
 * sweep of shares.lua; acquirer.step, sleep and accept; holdLease.changeMode; Notifier.Hear,
 * Listener.IsUp and AwaitUp. README.md says what is left out, and what each BREAK_ macro breaks.
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
#define LOSSES 0	/* of messages that were published */
#endif
#ifndef LAPSES
#define LAPSES 0	/* of deadlines, of processes that stop for long */
#endif
#ifndef COPIES
#define COPIES 0	/* of acquires that come late, or again */
#endif
#ifndef WEIGHS
#define WEIGHS 0	/* whether holders change sides: Downgrade, TryUpgrade */
#endif

/* Numbers from N on are dead waiters, which have nothing but an entry. */
#define ALL (N + DEAD)
#define NOBODY ALL
mtype = { idle, trying, joining, asking, resting, dead };
mtype = { unanswered, granted, taken, queued, gone, released };	/* taken: the reply "held" */
/* A process with a hold is in three of the hold's states (internal/engine/hold.go). held is also a claimed one;
 * changing is between reader and writer; over is also a retired one, and an attempt that is taken back. */
mtype = { held, changing, over };

typedef process_state {
	/* On the server. */
	bool hold;		/* it has a hold, with an expiry of its own */
	bool writer;		/* it weighs all; a reader weighs 1 */
	bool in_queue;
	byte place;		/* from 1: the order, by score; 0 for none */
	bool heard;		/* the server has its subscription */
	bool buried;		/* the tombstone of its token */

	/* In the process. */
	mtype stage = idle;
	mtype answer = unanswered;
	bool placed;		/* it was told that it is queued: it looks from now on */
	bool missed;		/* its subscription was interrupted */
	bool due;		/* it looks when a hold may expire */
	bool rung;		/* and one has */
	bool standby;		/* a message: look when a hold may expire */
	bool grant;		/* a message: a hold is yours */
	bool lapsed;		/* what was granted last has expired */
	bool copy		/* a sending of its acquire may still arrive */
}
process_state p[ALL];

byte crashes, resets, losses, lapses, copies;
/* A message was lost: only a look after long may help. */
bool excused;
/* The first live waiter died; no other has been told when to look since. Only a look after long may help
 * until then. */
bool bereft;

byte i, k, first, alive;
bool done, moved, flag, led;
mtype word = unanswered;

bool writers_are_alone = true;
bool nobody_is_passed = true;
bool all_are_served = true;
bool dead_are_skipped = true;
bool no_lost_wakeup = true;
bool no_orphan_hold = true;
bool no_ghost_in_queue = true;
bool not_behind_itself = true;
bool believer_has_hold = true;
bool no_phantom_grant = true;
bool dead_hold_ends = true;

/* first_waiter sets first to the first in the queue, and alive to the first that is heard or is SELF.
 * Either is NOBODY if there is none. */
inline first_waiter(SELF) {
	first = NOBODY; alive = NOBODY;
	for (i : 0 .. ALL - 1) {
		if
		:: p[i].in_queue && (first == NOBODY || p[i].place < p[first].place) -> first = i
		:: else
		fi;
		if
		:: p[i].in_queue && (p[i].heard || i == SELF) && (alive == NOBODY || p[i].place < p[alive].place) -> alive = i
		:: else
		fi
	}
}

/* room sets flag: there is room for P beside the holds of others. */
inline room(P) {
	flag = true;
	for (i : 0 .. N - 1) {
		flag = flag && !(p[i].hold && i != P && (p[i].writer || p[P].writer))
	}
}

/* enter gives P a place behind all others, unless it has one. */
inline enter(P) {
	if
	:: p[P].place == 0 ->
		k = 0;
		for (i : 0 .. ALL - 1) {
			k = (p[i].place > k -> p[i].place : k)
		}
		p[P].place = k + 1
	:: else
	fi
}
inline forgo(P) {
	for (i : 0 .. ALL - 1) {
		if
		:: p[P].place > 0 && p[i].place > p[P].place -> p[i].place--
		:: else
		fi
	}
	p[P].place = 0
}

/* admit adds P's hold. */
inline admit(P) {
	for (i : 0 .. ALL - 1) {
		nobody_is_passed = !(p[i].in_queue && i != P && (p[P].place == 0 || p[i].place < p[P].place));
		assert(nobody_is_passed)
	}
	p[P].hold = true; p[P].lapsed = false
}

inline stand_by(P) {
#ifndef BREAK_NO_STANDBY
	if
	:: p[P].heard && (p[P].stage == asking || p[P].stage == resting) -> p[P].standby = true; bereft = false
	:: p[P].heard && p[P].stage == dead -> bereft = true	/* its connection is not closed yet */
	:: else
	fi
#else
	skip
#endif
}

/* mourn sets bereft if P, which dies, is the first live waiter: those behind it relied on it. */
inline mourn(P) {
	led = p[P].in_queue;
	for (i : 0 .. N - 1) {
		led = led && !(p[i].in_queue && p[i].stage != dead && p[i].place < p[P].place)
	}
	bereft = bereft || led
}

/* serve is shares.lua's: SELF is answered directly, or NOBODY. MOVED: the queue has another
 * first than before. Sets done when SELF is served. */
inline serve(SELF, MOVED) {
	done = false; moved = MOVED;
	do
	:: true ->
		first_waiter(NOBODY);
		if
		:: first == NOBODY -> break
		:: else
		fi;
		room(first);
		if
#ifdef BREAK_DEAD_STAND_IN_THE_WAY
		:: !flag ->
#else
		:: !flag && (first == SELF || p[first].heard) ->
#endif
			if
			:: moved -> stand_by(first)
			:: else
			fi;
			break
		:: else
		fi;
		p[first].in_queue = false; moved = true;
		if
		:: first >= N -> forgo(first)
		:: first == SELF -> admit(first); done = true
		:: first < N && first != SELF && p[first].heard ->
			admit(first);
			if
			:: p[first].stage == asking || p[first].stage == resting -> p[first].grant = true
			:: else
			fi
		:: else
		fi;
#ifdef BREAK_ONE_AT_A_TIME
		break
#endif
	od;
	first_waiter(NOBODY);
	if
	:: first != NOBODY ->
		room(first);
		all_are_served = !flag;
		assert(all_are_served);
		dead_are_skipped = p[first].heard || first == SELF;
		assert(dead_are_skipped)
	:: else
	fi
}

/* run_acquire is share_acquire.lua for P: T, a try; otherwise it waits, or looks. Sets word. */
inline run_acquire(P, T) {
	first_waiter(NOBODY);
	room(P);
	if
#ifndef BREAK_NOT_IDEMPOTENT
	:: p[P].hold -> word = granted; p[P].lapsed = false
	:: !p[P].hold && p[P].buried -> word = gone
#else
	:: p[P].buried -> word = gone
#endif
#ifdef BREAK_BARGING
	:: !p[P].hold && !p[P].buried && !p[P].placed && flag -> admit(P); word = granted
#endif
	:: else ->
		if
		:: T ->
			serve(NOBODY, false);
			first_waiter(NOBODY); room(P);
			if
			:: first == NOBODY && flag -> admit(P); word = granted
			:: else -> word = taken
			fi
		:: !T && p[P].placed && !p[P].in_queue -> word = gone
		:: !T && !p[P].placed && first == NOBODY && flag -> admit(P); word = granted
		:: else ->
			enter(P);
			p[P].in_queue = true;
			serve(P, false);
			word = (done -> granted : queued);
			/* What it waits for, if it reads this. */
			first_waiter(NOBODY);
			p[P].due = word == queued && first == P; p[P].rung = false;
			bereft = bereft && !p[P].due
		fi
	fi
}

/* lose_hold ends P's hold without P. What it is told of that hold later comes too late. */
inline lose_hold(P) { p[P].lapsed = p[P].grant || p[P].answer == granted; p[P].hold = false }

/* run_release is share_release.lua for P, with its member of the queue. */
inline run_release(P) {
	if
#ifdef BREAK_CANCEL_ONLY_LEAVES
	:: p[P].hold && !p[P].placed ->
#else
	:: p[P].hold ->
#endif
		p[P].hold = false;
		serve(NOBODY, false)
	:: else ->
#ifdef BREAK_RELEASES_ANOTHERS
		/* One of as many readers as a counter says. */
		k = NOBODY;
		for (i : 0 .. N - 1) {
			k = (p[i].hold && !p[i].writer && !p[P].writer -> i : k)
		}
		if
		:: k != NOBODY -> lose_hold(k)
		:: else
		fi;
#endif
		first_waiter(P);
		led = p[P].in_queue && alive == P;
		p[P].in_queue = false;
#ifndef BREAK_LEAVES_SILENTLY
		if
		:: led -> serve(NOBODY, true)
		:: else
		fi
#endif
	fi;
#ifndef BREAK_NO_TOMBSTONE
	p[P].buried = p[P].copy;
#endif
	word = released
}

/* quiet: P does nothing unless it is told, or looks after long. */
#define quiet(P)	(p[P].stage == dead || p[P].stage == idle || p[P].stage == held || p[P].stage == resting && p[P].heard && \
			 !p[P].grant && !p[P].standby && !p[P].missed && !(p[P].due && p[P].rung))
#if N == 2
#define all_quiet	(quiet(0) && quiet(1))
#elif N == 3
#define all_quiet	(quiet(0) && quiet(1) && quiet(2))
#else
#define all_quiet	(quiet(0) && quiet(1) && quiet(2) && quiet(3))
#endif

/* A hold expires when nobody believes in it, as lease.pml shows for a lock; whatever the others do.
 * While it changes sides its deadline stands as before. */
#define lasts(P)	(p[P].stage == held || p[P].stage == changing)
#ifdef BREAK_ONE_TTL
#define may_expire(P)	(!lasts(0) && !lasts(1) && !lasts(N - 1))
#else
#define may_expire(P)	(!lasts(P))
#endif

/*
 * Processes are alike: of states that differ only in their names, one is visited. NAMED keeps the
 * names, for stories.
 */
#define key(P)	((p[P].stage << 20) + (p[P].answer << 16) + (p[P].place << 13) + (p[P].hold << 12) + (p[P].writer << 11) + \
		 (p[P].in_queue << 10) + (p[P].heard << 9) + (p[P].buried << 8) + (p[P].placed << 7) + (p[P].missed << 6) + \
		 (p[P].due << 5) + (p[P].rung << 4) + (p[P].standby << 3) + (p[P].grant << 2) + (p[P].lapsed << 1) + p[P].copy)
inline exchange(A, B)	{ k = A; A = B; B = k }
inline order(P, Q) {
	if
	:: key(P) > key(Q) ->
		exchange(p[P].hold, p[Q].hold); exchange(p[P].writer, p[Q].writer); exchange(p[P].in_queue, p[Q].in_queue);
		exchange(p[P].place, p[Q].place); exchange(p[P].heard, p[Q].heard); exchange(p[P].buried, p[Q].buried);
		word = p[P].stage; p[P].stage = p[Q].stage; p[Q].stage = word;
		word = p[P].answer; p[P].answer = p[Q].answer; p[Q].answer = word;
		exchange(p[P].placed, p[Q].placed); exchange(p[P].missed, p[Q].missed); exchange(p[P].due, p[Q].due);
		exchange(p[P].rung, p[Q].rung); exchange(p[P].standby, p[Q].standby); exchange(p[P].grant, p[Q].grant);
		exchange(p[P].lapsed, p[Q].lapsed); exchange(p[P].copy, p[Q].copy)
	:: else
	fi
}
inline sort() {
	for (first : 1 .. N - 1) {
		for (i : 0 .. N - 1 - first) {
			order(i, i + 1)
		}
	}
}

inline check() {
	for (k : 0 .. N - 1) {
		room(k);
		writers_are_alone = !(p[k].hold && !flag);
		assert(writers_are_alone)
	}
	first_waiter(NOBODY);
	if
	:: alive != NOBODY -> room(alive)
	:: else -> flag = true
	fi;
	for (i : 0 .. N - 1) {
		not_behind_itself = !(p[i].hold && p[i].in_queue);
		assert(not_behind_itself);
		no_orphan_hold = !(p[i].hold && (p[i].stage == idle || p[i].stage == joining && !p[i].placed));
		assert(no_orphan_hold);
		no_ghost_in_queue = !(p[i].in_queue && (p[i].stage == idle || p[i].stage == trying || lasts(i)));
		assert(no_ghost_in_queue);
		believer_has_hold = !(lasts(i) && !p[i].hold);
		assert(believer_has_hold);
		no_phantom_grant = !(p[i].grant && !p[i].lapsed && !p[i].hold);
		assert(no_phantom_grant);
		dead_hold_ends = !(p[i].stage == dead && p[i].hold && !may_expire(i));
		assert(dead_hold_ends);
		no_lost_wakeup = !(p[i].stage == resting && !p[i].hold && flag && all_quiet && !excused && !bereft);
		assert(no_lost_wakeup)
	}
#ifndef NAMED
	sort();
#endif
	i = 0; k = 0; first = 0; alive = 0; done = false; moved = false; flag = false; led = false; word = unanswered
}

inline clear(P) {
	p[P].answer = unanswered; p[P].due = false; p[P].rung = false; p[P].standby = false; p[P].grant = false; p[P].lapsed = false
}
inline take(P) { clear(P); forgo(P); p[P].stage = held; p[P].placed = false }

/* ring: the timers of all that wait for a hold to expire go off. */
inline ring() {
	for (i : 0 .. N - 1) {
		p[i].rung = p[i].rung || p[i].due || p[i].standby
	}
}

#define me _pid
#define is(S)	(p[me].stage == S)

active [N] proctype process() {
end:	do :: atomic { if
	/* It tries, as a reader or a writer; or asks at once, being subscribed. */
	:: d_step { is(idle) && !p[me].copy -> p[me].stage = trying; printf("%d tries to read\n", me) }
	:: d_step { is(idle) && !p[me].copy -> p[me].stage = trying; p[me].writer = true; printf("%d tries to write\n", me) }
	:: d_step { is(idle) && !p[me].copy && p[me].heard && !p[me].missed -> p[me].stage = asking; printf("%d would read\n", me) }
	:: d_step { is(idle) && !p[me].copy && p[me].heard && !p[me].missed ->
		p[me].stage = asking; p[me].writer = true; printf("%d would write\n", me) }
	:: d_step { is(trying) && p[me].answer == unanswered ->
		run_acquire(me, true); p[me].answer = word; printf("%d is answered %e\n", me, word) }
	:: d_step { is(trying) && p[me].answer == taken -> clear(me); p[me].stage = idle; p[me].writer = false }
	:: d_step { is(trying) && p[me].answer == taken -> clear(me); p[me].stage = joining; printf("%d joins\n", me) }
	:: d_step { (is(trying) || is(asking)) && p[me].answer == granted && !p[me].lapsed ->
		take(me); printf("%d has a hold\n", me) }
	:: d_step { (is(trying) || is(asking)) && p[me].answer == granted && p[me].lapsed ->
		clear(me); p[me].stage = over; printf("%d is late\n", me) }

	/* It subscribes, and when that is confirmed asks for a place, or looks. */
#ifdef BREAK_SUBSCRIBED_AFTER_CHECK
	:: d_step { is(joining) -> p[me].stage = asking }
	:: d_step { is(resting) && !p[me].heard -> p[me].heard = true }
#else
	:: d_step { is(joining) -> p[me].heard = true; p[me].missed = false; p[me].stage = asking; printf("%d is subscribed\n", me) }
#endif
	:: d_step { is(asking) && p[me].answer == unanswered ->
		p[me].missed = p[me].missed && !p[me].heard;
		run_acquire(me, false); p[me].answer = word; printf("%d is answered %e\n", me, word) }
	:: d_step { is(asking) && p[me].answer == queued ->
#ifdef BREAK_SUBSCRIBED_AFTER_CHECK
		p[me].stage = resting;
#else
		p[me].stage = (p[me].heard -> resting : joining);
#endif
		p[me].answer = unanswered; p[me].placed = true }
	:: d_step { is(asking) && p[me].answer == gone ->	/* another token, the same place */
		clear(me); p[me].placed = false }

	/* It rests, until a message, or a time to look. */
	:: d_step { is(resting) && p[me].grant && !p[me].lapsed -> take(me); printf("%d is told that it has a hold\n", me) }
	:: d_step { is(resting) && p[me].grant && p[me].lapsed -> p[me].grant = false; p[me].stage = asking; printf("%d is told too late\n", me) }
	:: d_step { is(resting) && p[me].standby -> p[me].standby = false; p[me].due = true; printf("%d stands by\n", me) }
	:: d_step { is(resting) && p[me].due && p[me].rung ->
		p[me].due = false; p[me].rung = false; p[me].stage = asking; printf("%d looks, being due\n", me) }
#ifdef BREAK_NO_LOOK_AFTER_RESET
	:: d_step { is(resting) && p[me].missed -> p[me].missed = false }
#else
	:: d_step { is(resting) && p[me].missed && p[me].heard ->
		p[me].missed = false; p[me].stage = asking; printf("%d looks after a reset\n", me) }
#endif
	:: d_step { is(resting) && all_quiet -> p[me].stage = asking; p[me].due = false; p[me].rung = false; printf("%d looks after long\n", me) }

	/* It releases, or leaves, whatever it is doing. */
	:: d_step { lasts(me) || is(resting) || is(asking) || is(joining) ->
		clear(me); p[me].stage = over; printf("%d ends\n", me) }
	:: d_step { is(over) && p[me].answer == unanswered ->
		run_release(me); p[me].answer = word; printf("%d has released, or left\n", me) }
	:: d_step { is(over) && p[me].answer == released ->
		clear(me); forgo(me); p[me].stage = idle; p[me].placed = false; p[me].writer = false }

#if COPIES > 0
	/* It asks again, not having heard an answer, with the same token. */
	:: d_step { copies < COPIES && (is(trying) || is(asking)) && p[me].answer != unanswered && !p[me].lapsed ->
		copies++; p[me].answer = unanswered; p[me].due = false; printf("%d asks again\n", me) }
	/* It gives up, while a sending is under way. That comes late. */
	:: d_step { copies < COPIES && (is(trying) || is(asking)) && !p[me].placed && p[me].answer == unanswered ->
		copies++; clear(me); p[me].copy = true; p[me].stage = over; printf("%d gives up on its request\n", me) }
	:: d_step { p[me].copy ->
		run_acquire(me, false); p[me].due = false; printf("a late request of %d is answered %e\n", me, word);
		p[me].copy = false; p[me].buried = false }
	:: d_step { p[me].copy -> p[me].copy = false; p[me].buried = false }
#endif

#if WEIGHS > 0
	/* A writer becomes a reader without a gap; a reader becomes a writer if it is alone. */
	:: d_step { is(held) -> p[me].stage = changing; printf("%d asks to change sides\n", me) }
	:: d_step { is(changing) && p[me].answer == unanswered && p[me].hold ->
		if
		:: p[me].writer ->
			p[me].writer = false;
#ifndef BREAK_DOWNGRADES_SILENTLY
			serve(NOBODY, false);
#endif
			flag = true
		:: else ->
			p[me].writer = true;
			room(me);
#ifndef BREAK_UPGRADE_NOT_ALONE
			p[me].writer = flag
#endif
		fi;
		p[me].answer = (flag -> granted : taken);
		printf("%d is answered %e\n", me, p[me].answer) }
	:: d_step { is(changing) && p[me].answer != unanswered -> clear(me); p[me].stage = held; printf("%d has changed sides, or not\n", me) }
#endif

	/* It stops for longer than its lease. */
	:: d_step { lapses < LAPSES && lasts(me) -> lapses++; clear(me); p[me].stage = over; printf("%d loses its lease\n", me) }

	/* It dies; sooner or later, or never, the server sees its connection closed. */
	:: d_step { crashes < CRASHES && !is(dead) ->
		crashes++; mourn(me); clear(me); p[me].stage = dead; p[me].placed = false; p[me].missed = false;
		printf("%d dies\n", me) }
	:: d_step { is(dead) && p[me].heard -> p[me].heard = false; printf("%d's connection is closed\n", me) }

	/* Its subscription is reset: what was not read is lost. It comes back. */
	:: d_step { resets < RESETS && p[me].heard && !is(dead) ->
		resets++; p[me].heard = false; p[me].missed = true; p[me].grant = false; p[me].standby = false;
		printf("%d's subscription is reset\n", me) }
	:: d_step { p[me].missed && !p[me].heard && !is(dead) -> p[me].heard = true; printf("%d is subscribed again\n", me) }
	:: d_step { losses < LOSSES && (p[me].grant || p[me].standby) ->
		losses++; excused = true; p[me].grant = false; p[me].standby = false; printf("a message to %d is lost\n", me) }

	:: d_step { p[me].hold && may_expire(me) ->
		lose_hold(me);
#ifdef BREAK_FIRST_EXPIRY_ENDS_ALL
		for (i : 0 .. N - 1) {
			if
			:: p[i].hold -> lose_hold(i)
			:: else
			fi
		}
#endif
		ring();
		printf("the hold of %d expires\n", me) }
	fi; d_step { check() } } od
}

#if DEAD > 0
/* dead_waiter enters the queue while somebody has a hold, and dies; its connection is closed before
 * anything else happens. Once its entry has been dropped or removed, it stands for the next such waiter. */
active [DEAD] proctype dead_waiter() {
end:	do :: atomic { if
	:: d_step { !p[me].in_queue && (p[0].hold || p[1].hold || p[N - 1].hold) ->
		enter(me); p[me].in_queue = true; printf("%d enters the queue and dies\n", me) }
	:: d_step { p[me].in_queue -> p[me].in_queue = false; forgo(me); printf("%d's entry is removed\n", me) }
	fi; d_step { check() } } od
}
#endif
