/*
 * requests.pml: the requests of one process are lost, come late, and are sent again, while a
 * rival uses the same lock. A token that the process has ended neither holds the lock nor is in the
 * queue once the last copy of its scripts is gone. A native acquire cannot be refused: a copy that
 * comes late can give the lock to an ended token, which keeps it until a repeated release arrives,
 * and at most until the expiry that the request named.
 *
 * Mirrors acquire.lua and release.lua, the fence check of renew.lua; attempt.ask,
 * attempt.abandon, Client.takeBack, Lease.Release and exec.Persist. README.md says what is left
 * out, and what each BREAK_ macro breaks.
 */

#ifndef TOKENS
#define TOKENS 1	/* successive attempts of the process; 1 or 2 */
#endif
#ifndef LATE
#define LATE 2		/* sendings that nobody waits for any more and that may still arrive; up to 3 */
#endif
#ifndef PATIENCE
#define PATIENCE 2	/* ticks from a request's first sending to its not-after */
#endif
#ifndef TERM
#define TERM 2		/* ticks from a native acquire's sending to the expiry that it names */
#endif
#ifndef DELETIONS
#define DELETIONS 0	/* of the lock, by an operator */
#endif

#define FREE	0
#define RIVAL	(TOKENS + 1)

/* native: SET NX PXAT, the fence and EXISTS of the queue in one transaction. half: one that is not a
 * transaction, between its commands. delete: compare and delete, unless the lock is marked. */
mtype = { none, try, wait, look, release, native, half, delete };
/* taken: the reply "held", or that SET did nothing. barged: SET was done, and there is a queue. */
mtype = { pending, granted, taken, barged, queued, gone, late, released };
/* The process: without a hold, then in two of the hold's states (internal/engine/hold.go). held is also a
 * claimed one, which differs in time alone; over is also a retired one, which is released later, and an
 * attempt that is taken back. */
mtype = { idle, asking, resting };
mtype = { held, over };

/* The server. Times are countdowns in ticks of its clock: 0 is now, -1 is past. */
byte owner = FREE;
bool mark;
bool fresh;				/* the value's fence is 0: a native acquire set it */
bool in_queue[TOKENS + 2];
short tombstone[TOKENS + 2] = -1;	/* until it ends; it stands while above 0 */
short expiry[TOKENS + 2] = -1;		/* that a native acquire of the token names, while it can still be carried out,
					 * or while its lock is fresh */

/* Requests under way. The first is the one whose answer the process waits for. */
typedef sending {
	mtype kind = none;
	byte token;
	short not_after = -1	/* of an acquire by script; of a release, its tombstone's end */
}
sending wire[4];
mtype answer = none;		/* to the first; pending until it has arrived */
bool lapsed;			/* the lock that the answer or the message grants has expired since, */
bool broken;			/* or was deleted since */

/* The process. */
mtype stage = idle;
byte token;			/* of the present attempt; 0 before the first */
mtype mode = none;
short not_after = -1;		/* of the call under way */
bool unheard;			/* a sending of the call under way was given up */
short unanswered = -1;		/* the largest not-after of acquires that went unanswered */
bool owed;			/* the server has, or may have, something of this token */
bool open;			/* its native acquire went unanswered */
bool natively;			/* its lease was granted natively */
bool message;			/* a grant for the token waits in the inbox */
bool ended[TOKENS + 2];		/* tokens that the process is done with */
bool dirty[TOKENS + 2];		/* ended tokens whose release is repeated */
bool same_grant;		/* the lock has the fence of the lease: it was kept without a break */

bool rival_believes;
byte deletions;
bool overtaken;			/* the rival was granted the lock between two commands of an acquire */

/* Scratch. */
byte i, k;
byte chosen;
mtype said = none;

/* The properties. Each is true except in a state that breaks it. */
bool no_orphan_lock = true;
bool ghost_is_released = true;
bool fences_rise = true;
bool no_ghost_in_queue = true;
bool believer_owns_lock = true;
bool not_behind_itself = true;
bool renewal_keeps_the_grant = true;

#ifdef BREAK_NOT_AFTER_INCLUDED
#define past(N) ((N) < 0)	/* now > not-after */
#else
#define past(N) ((N) <= 0)	/* now >= not-after */
#endif
#ifdef BREAK_NO_NOT_AFTER
#undef past
#define past(N) false
#endif

#define believes(T)	((T) == RIVAL && rival_believes || (T) == token && stage == held)
#define acquires(I, T)	(wire[I].token == T && (wire[I].kind == try || wire[I].kind == wait))
#define may_arrive(T)	(answer == pending && acquires(0, T) || acquires(1, T) || acquires(2, T) || acquires(3, T))
#define room		(wire[LATE].kind == none)
#if TOKENS == 1
#define any_waiter	(in_queue[1] || in_queue[RIVAL])
#define any_tombstone	(tombstone[1] > 0)
#define any_expiry	(expiry[1] > -1)
#else
#define any_waiter	(in_queue[1] || in_queue[2] || in_queue[RIVAL])
#define any_tombstone	(tombstone[1] > 0 || tombstone[2] > 0)
#define any_expiry	(expiry[1] > -1 || expiry[2] > -1)
#endif

inline check() {
	d_step {
		for (k : 1 .. TOKENS) {
			not_behind_itself = !(owner == k && in_queue[k]);
			assert(not_behind_itself);
			no_orphan_lock = !(ended[k] && owner == k && !may_arrive(k) && expiry[k] < 0);
			assert(no_orphan_lock);
			ghost_is_released = !(ended[k] && owner == k && !may_arrive(k) && !dirty[k]);
			assert(ghost_is_released);
			no_ghost_in_queue = !(ended[k] && in_queue[k] && !may_arrive(k));
			assert(no_ghost_in_queue)
		}
		believer_owns_lock = deletions || !(stage == held && owner != token || rival_believes && owner != RIVAL);
		assert(believer_owns_lock);
		i = 0; k = 0; chosen = 0; said = none
	}
}

inline rival_holds() { rival_believes = true; overtaken = wire[0].kind == half }

/*
 * hand_over gives the lock to somebody in the queue: to anybody, since the order is for
 * queue.pml. SELF is answered directly; 0 for nobody. The rival hears at once. A waiter
 * whose channel nobody hears is dropped: the process's may be.
 */
inline hand_over(SELF) {
	owner = FREE; mark = false; fresh = false;
	do
	:: !any_waiter -> break
	:: any_waiter ->
		if
		:: in_queue[1] -> chosen = 1
#if TOKENS > 1
		:: in_queue[2] -> chosen = 2
#endif
		:: in_queue[RIVAL] -> chosen = RIVAL
		fi;
		in_queue[chosen] = false;
		if
		:: chosen == SELF -> owner = chosen; mark = any_waiter; said = granted; break
		:: chosen != SELF && chosen == RIVAL -> owner = chosen; mark = any_waiter; rival_holds(); break
		:: chosen != SELF && chosen != RIVAL ->
			if
			:: owner = chosen; mark = any_waiter;
				if
				:: chosen == token && (stage == resting || stage == asking) -> message = true; lapsed = false; broken = false
				:: else		/* for nobody: the release under way ends it */
				fi;
				break
			:: true			/* dropped */
			fi
		fi
	od
}

/* A native acquire of token T. One that names an expiry in the past leaves nothing. Sets said. */
inline run_native(T) {
	if
	:: owner != FREE -> said = taken
#ifndef BREAK_PX
	:: owner == FREE && expiry[T] < 0 -> said = taken
	:: owner == FREE && expiry[T] > -1 ->
#else
	:: owner == FREE ->
#endif
		owner = T; mark = false; fresh = true;
		said = (any_waiter || any_tombstone -> barged : granted)
	fi
}

/* begin_native carries out a native acquire, and end_half the rest of one that is not a transaction. */
#ifdef BREAK_NO_TRANSACTION
inline begin_native() {
	run_native(token); overtaken = false;
	if
	:: said == granted -> wire[0].kind = half
	:: else
	fi
}
inline end_half() { said = granted; wire[0].kind = none }
#elif defined(BREAK_FENCE_FIRST)
inline begin_native() { wire[0].kind = half; overtaken = false }
inline end_half() { run_native(token); wire[0].kind = none }
#else
inline begin_native() { run_native(wire[0].token) }
inline end_half() { skip }
#endif

/* acquire.lua, for token T in mode M, refused past N. Sets said. */
inline run_acquire(T, M, N) {
	if
	:: owner == FREE && M != look && !any_waiter && !any_tombstone ->
		if
		:: past(N) -> said = late
		:: else -> owner = T; mark = false; said = granted
		fi
#ifndef BREAK_NOT_IDEMPOTENT
	:: owner == T -> said = granted
#endif
#ifndef BREAK_NO_TOMBSTONE
	:: owner != T && tombstone[T] > 0 -> said = gone
#endif
	:: else ->
		if
		:: M != look && past(N) -> said = late
		:: M == look && !in_queue[T] -> said = gone
		:: M == try && !past(N) ->
			said = taken;
			if
			:: owner == FREE ->
				hand_over(0);
				if
				:: owner == FREE -> owner = T; said = granted
				:: else
				fi
			:: else
			fi
		:: M == look && in_queue[T] || M == wait && !past(N) ->
			said = queued;
			in_queue[T] = true;
			if
			:: owner == FREE -> hand_over(T)
			:: else
			fi;
			if
			:: said == queued -> mark = true
			:: else
			fi
		fi
	fi
}

/* release.lua, for token T, whether it waits or not, with a tombstone until U. Sets said. */
inline run_release(T, U) {
	said = gone;
	if
	:: owner == T ->
		said = released;
		if
		:: mark || fresh -> hand_over(0)
		:: else -> owner = FREE
		fi;
		said = released
#ifndef BREAK_CANCEL_STAYS_QUEUED
	:: owner != T && in_queue[T] ->
		in_queue[T] = false;
		if
		:: owner == FREE -> hand_over(0)
		:: else
		fi
#endif
	:: else
	fi;
	if
	:: U > 0 -> tombstone[T] = U
	:: else
	fi
}

/* A native release of token T. Sets said. */
inline run_delete(T) {
	if
	:: owner == T && !mark -> owner = FREE; fresh = false; said = released
	:: else -> said = gone
	fi
}

inline clear(I) { wire[I].kind = none; wire[I].token = 0; wire[I].not_after = -1 }

inline copy(I, J) {
	wire[I].kind = wire[J].kind; wire[I].token = wire[J].token; wire[I].not_after = wire[J].not_after
}

/* keep puts the first sending among the late ones, in a fixed order, so that states which differ
 * only in their order are one. */
#define weight(I)	(wire[I].kind * 100 + wire[I].token * 10 + wire[I].not_after)
inline keep() {
	i = 1;
	do
	:: wire[i].kind == none || weight(i) > weight(0) -> break
	:: else -> i++
	od;
	k = LATE;
	do
	:: k == i -> break
	:: else -> copy(k, k - 1); k--
	od;
	copy(i, 0)
}

/* drop removes a late sending; those behind it move up. */
inline drop(I) {
	i = I;
	do
	:: i == LATE -> break
	:: else -> copy(i, i + 1); i++
	od;
	clear(LATE)
}

inline post(KIND, N) {
	answer = pending;
	wire[0].kind = KIND; wire[0].token = token; wire[0].not_after = N;
	if
	:: KIND == native -> expiry[token] = TERM
	:: else
	fi
}

inline no_answer() { answer = none; clear(0) }

inline begin_call(M) { stage = asking; mode = M; not_after = (M == native -> -1 : PATIENCE); unheard = false }

/* end_call: some sending of this call may be carried out without our hearing of it. */
inline end_call() {
	if
	:: unheard && mode != look && not_after > unanswered -> unanswered = not_after
	:: else
	fi;
	open = open || unheard && mode == native;
	owed = owed || unheard || mode == wait || mode == look;
	mode = none; not_after = -1; unheard = false
}

inline forget_message() { message = false; lapsed = false; broken = false }

/* once: the answer to a release shows that the only native copy has been carried out. */
#if defined(BREAK_WAITS_ON) || defined(BREAK_TRIES_ON)
#define once(A)	false
#else
#define once(A)	((A) == released)
#endif

/* end_token: the release of a token whose native acquire went unanswered is repeated until the expiry that
 * the acquire named, or until one is answered "released". */
inline end_token() {
	dirty[token] = open && !once(said) && expiry[token] > -1;
	expiry[token] = (dirty[token] -> expiry[token] : -1);
#ifdef BREAK_RELEASED_ONCE
	dirty[token] = false;
#endif
	ended[token] = true; stage = idle; owed = false; open = false; natively = false; unanswered = -1; same_grant = false;
	forget_message()
}

/* give_back begins to end the token by a release, which is sent until it is answered. */
inline give_back() {
	if
#ifdef BREAK_NOTHING_OWED_UNANSWERED
	:: stage == asking -> end_token()
#endif
	:: else -> stage = over; owed = false; same_grant = false; forget_message()
	fi
}

/* give_up: a sending goes unanswered. A token whose native acquire did has ended: what the process
 * asks next has another. */
inline give_up() {
	unheard = true; natively = false; no_answer();
	if
	:: stage == asking -> end_call(); give_back(); printf("process: gives up its attempt\n")
#ifdef BREAK_WAITS_ON
	:: stage == asking && mode == native -> end_call(); begin_call(wait)
#endif
#ifdef BREAK_TRIES_ON
	:: stage == asking && mode == native -> end_call(); begin_call(try)
#endif
#ifdef BREAK_NATIVE_TWICE
	:: true
#else
	:: mode != native
#endif
	fi
}

/* again: a repeated release arrives, or is lost. Late copies of it make no difference: they can only release. */
inline again(T) {
	run_release(T, -1);
	printf("server: answers a repeated release of token %d %e\n", T, said);
	if
	:: once(said) -> dirty[T] = false; expiry[T] = -1
	:: once(said); printf("its answer is lost\n")
	:: else
	fi
}

inline expires() {
	lapsed = lapsed || owner == token && (message || answer == granted || wire[0].kind == half);
	owner = FREE; mark = false; fresh = false
}

inline older(T) {
	if
	:: T > -1 -> T--
	:: else
	fi
}

/* arrive: a late sending arrives, or is lost. Its answer is lost in any case. */
inline arrive(I) {
	if
	:: wire[I].kind == release -> run_release(wire[I].token, wire[I].not_after); printf("server: answers a late release %e\n", said)
	:: wire[I].kind == delete -> run_delete(wire[I].token); printf("server: answers a late native release %e\n", said)
	:: wire[I].kind == native -> run_native(wire[I].token); printf("server: answers a late native acquire of token %d %e\n", wire[I].token, said)
	:: wire[I].kind == try || wire[I].kind == wait || wire[I].kind == look -> run_acquire(wire[I].token, wire[I].kind, wire[I].not_after); printf("server: answers a late acquire of token %d %e\n", wire[I].token, said)
	:: true; printf("a late sending is lost\n")
	fi;
	drop(I)
}

active proctype model() {
	do
	/* The process asks, and asks again when it has given up on a sending. */
	:: atomic { stage == idle && token < TOKENS ->
		token++;
		if
		:: begin_call(native); printf("process: tries natively, token %d\n", token)
		:: begin_call(try); printf("process: tries, token %d\n", token)
		:: begin_call(wait); printf("process: asks and would wait, token %d\n", token)
		fi;
		check() }
	:: atomic { stage == asking && answer == none ->
		post(mode, not_after); printf("process: sends %e\n", mode);
		check() }
	:: atomic { stage == resting && !message ->
		begin_call(look); check() }

	/* It gives up on a sending, which may still arrive; when its caller goes, for good. */
	:: atomic { answer == pending && room && wire[0].kind != half ->
		keep();
		printf("process: gives up on a sending, which is under way\n");
		give_up();
		check() }
	/* The same, if it or its answer was lost. */
	:: atomic { answer != none && wire[0].kind != half ->
		printf("process: a request or its answer was lost\n");
		give_up();
		check() }

	/* It reads an answer. */
	:: atomic { answer != none && answer != pending ->
		said = answer; printf("process: reads %e\n", said);
		no_answer();
		if
		:: stage == over && natively && said == gone -> natively = false
		:: stage == over && !(natively && said == gone) -> end_token()
		:: stage == asking && said == late -> chosen = mode; end_call(); begin_call(chosen)
		:: stage == asking && said != late ->
			chosen = mode;
			end_call();
			if
			:: said == granted && lapsed -> give_back()	/* past its deadline */
			:: said == granted && !lapsed ->
				stage = held; same_grant = !broken; owed = true; natively = chosen == native && !open; forget_message();
				fences_rise = !(natively && overtaken);
				assert(fences_rise)
			:: said == queued -> stage = resting
			:: said == barged -> give_back()
			:: said == taken && chosen == native ->
				if
				:: begin_call(try)
				:: begin_call(wait)
				:: end_token()
				fi
			:: said == taken && chosen != native || said == gone ->
				if
				:: owed -> give_back()
				:: else -> end_token()
				fi
			fi
		fi;
		check() }

	/* A grant by message. A look shows whether it has lapsed. */
	:: atomic { stage == resting && message ->
		printf("process: reads a grant\n");
		if
		:: lapsed -> begin_call(look)
		:: else -> stage = held; same_grant = !broken
		fi;
		forget_message();
		check() }

	/* It renews, which writes the fence; it releases, leaves, or loses its lease. */
#ifdef BREAK_RENEWAL_OF_ANY_FENCE
	:: atomic { stage == held && owner == token ->
#else
	:: atomic { stage == held && owner == token && (same_grant || fresh) ->
#endif
		renewal_keeps_the_grant = same_grant;
		assert(renewal_keeps_the_grant);
		if
		:: fresh -> fresh = false; expiry[token] = -1; printf("process: renews\n")
		:: else
		fi;
		check() }
	:: atomic { stage == held || stage == resting ->
		printf("process: ends token %d\n", token);
		give_back();
		check() }
	:: atomic { stage == over && answer == none && natively ->
		post(delete, -1);
		printf("process: sends a native release\n");
		check() }
	:: atomic { stage == over && answer == none && !natively ->
#ifdef BREAK_RELEASE_WITHOUT_TOMBSTONE
		post(release, -1);
#else
		post(release, unanswered);
#endif
		printf("process: sends release\n");
		check() }
	:: atomic { dirty[1] -> again(1); check() }
#if TOKENS > 1
	:: atomic { dirty[2] -> again(2); check() }
#endif

	/* A request arrives. */
	:: atomic { answer == pending ->
#ifdef OUTSIDE_DUPLICATED_ON_THE_WAY
		if
		:: room -> keep()
		:: true
		fi;
#endif
		if
		:: wire[0].kind == half -> end_half()
		:: wire[0].kind == native -> lapsed = false; broken = false; begin_native()
		:: wire[0].kind == release -> run_release(wire[0].token, wire[0].not_after)
		:: wire[0].kind == delete -> run_delete(wire[0].token)
		:: wire[0].kind == try || wire[0].kind == wait || wire[0].kind == look ->
			run_acquire(wire[0].token, wire[0].kind, wire[0].not_after);
			if
			:: said == granted -> lapsed = false; broken = false
			:: else
			fi
		fi;
		if
		:: wire[0].kind == half
		:: wire[0].kind != half ->
			answer = said; clear(0);
			printf("server: answers %e\n", said)
		fi;
		check() }
	:: atomic { wire[1].kind != none -> arrive(1); check() }
	:: atomic { wire[2].kind != none -> arrive(2); check() }
	:: atomic { wire[3].kind != none -> arrive(3); check() }

	/* The rival, whose scripts take no time. */
	:: atomic { owner != RIVAL && !in_queue[RIVAL] ->
		run_acquire(RIVAL, wait, 1);
		if
		:: said == granted -> rival_holds()
		:: else -> rival_believes = false
		fi;
		printf("rival: asks, and is answered %e\n", said);
		check() }
	:: atomic { rival_believes ->
		rival_believes = false;
		if
		:: run_release(RIVAL, -1); printf("rival: releases\n")
		:: true; printf("rival: dies\n")
		fi;
		check() }
	:: atomic { in_queue[RIVAL] -> run_release(RIVAL, -1); printf("rival: leaves\n"); check() }

	/* A lock expires when nobody believes in it any more: lease.pml shows that. */
	:: atomic { owner != FREE && !believes(owner) ->
		expires();
		printf("server: the lock expires\n");
		check() }
	/* A tick. A lease ends before its lock does. */
	:: d_step { !(fresh && believes(owner) && expiry[owner] == 0) && (any_expiry || not_after > -1 || unanswered > -1 || any_tombstone ||
			wire[0].not_after > -1 || wire[1].not_after > -1 || wire[2].not_after > -1 || wire[3].not_after > -1) ->
		for (i : 0 .. 3) {
			older(wire[i].not_after)
		}
		for (i : 1 .. TOKENS) {
			older(tombstone[i]);
			older(expiry[i]);
			dirty[i] = dirty[i] && expiry[i] > -1;
			if
#ifndef BREAK_PX
			:: owner == i && fresh && expiry[i] < 0 -> expires()
#endif
			:: else
			fi
		}
		older(not_after);
		older(unanswered);
		i = 0;
		printf("a tick\n") }

	/* An operator deletes it. */
	:: atomic { deletions < DELETIONS && owner != FREE ->
		deletions++;
		broken = broken || owner == token && (message || answer == granted || wire[0].kind == half);
		same_grant = false;
		owner = FREE; mark = false; fresh = false;
		printf("operator: deletes the lock\n");
		check() }
	od
}
