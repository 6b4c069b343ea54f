// What the page knows of all locks.

export class Store {
  constructor() {
    this.locks = new Map(); // by id
    this.next = null; // a list that is being sent anew; null if none is
    this.state = null; // how the latest look ended; null before the first
    this.quorum = false; // it is not known who waits
    this.offset = 0; // of the server's clock to this browser's, in ms
  }

  now() {
    return Date.now() + this.offset;
  }

  // reset begins a list that is sent anew. What was known stays until all of it is there.
  reset() {
    this.next = this.locks.size > 0 ? new Map() : null;
  }

  // apply returns what may have changed: "order" of the list, "lease" of some locks, or "".
  apply(changes) {
    const locks = this.next ?? this.locks;
    let what = "";
    for (const values of changes.rows ?? []) {
      const lock = lockOf(values);
      locks.set(lock.id, lock);
      what = "order";
    }
    for (const id of changes.gone ?? []) {
      locks.delete(id);
      what = "order";
    }
    for (const [id, until] of changes.renewed ?? []) {
      const lock = locks.get(id);
      if (lock) lock.until = until;
      what ||= "lease";
    }
    if (changes.state && this.next) {
      this.locks = this.next;
      this.next = null;
      what = "order";
    }
    if (changes.state) {
      this.state = changes.state;
      if (changes.state.t) this.tell(changes.state.t);
    }
    return what;
  }

  // tell takes the server's time.
  tell(t) {
    this.offset = t - Date.now();
  }
}

// lockOf takes apart what row.go writes.
function lockOf([id, name, kind, holders, mode, owner, host, foreign, used, limit, since, until, grant, waiting, waited, notes]) {
  const text = `${name}\n${owner}\n${host}\n${kind}\n${notes}`.toLowerCase();
  const lock = { id, name, kind, holders, mode, owner, host, foreign: foreign === 1, used, limit, since, until, grant: grant.toLowerCase(), waiting, waited, notes, text };
  return { ...lock, ...candidates(lock) };
}

// candidates returns how many processes wait, and how many stand by: while an election has a leader, its candidates do not wait. It
// returns no time for an election, because it is not known since when nobody leads.
export function candidates({ kind, holders, waiting, waited }) {
  if (kind !== "election") return { waiting, waited, standby: 0 };
  return holders > 0 ? { waiting: 0, waited: 0, standby: waiting } : { waiting, waited: 0, standby: 0 };
}

// stateOf is how a lock is coloured.
export function stateOf(lock) {
  if (lock.waiting > 0) return "waiting";
  return lock.holders > 0 ? "held" : "idle";
}
