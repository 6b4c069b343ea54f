// The connection to the inspector. It is open only while the page is seen: browsers keep few at a time.

const silence = 25000; // ms without a word, after which the connection counts as dead; a heartbeat comes every 10 s
const again = 3000; // ms

export class Stream {
  // handlers are called with the data of the event of their name, and connected with true or false.
  constructor(url, handlers, connected) {
    this.url = url;
    this.handlers = handlers;
    this.connected = connected;
    this.source = null;
    this.timer = 0;
    this.onVisibility = () => (document.hidden ? this.disconnect() : this.connect());
    document.addEventListener("visibilitychange", this.onVisibility);
    if (!document.hidden) this.connect();
  }

  connect() {
    this.disconnect();
    const source = new EventSource(this.url);
    this.source = source;
    for (const name of ["hello", "reset", "changes", "lock", "beat"]) {
      source.addEventListener(name, (e) => {
        if (this.source !== source) return;
        this.heard();
        this.handlers[name]?.(JSON.parse(e.data));
      });
    }
    source.addEventListener("open", () => this.heard());
    source.addEventListener("error", () => {
      if (this.source === source) this.failed();
    });
    this.wait(silence);
  }

  heard() {
    this.connected(true);
    this.wait(silence);
  }

  failed() {
    this.connected(false);
    this.source?.close();
    this.source = null;
    this.wait(again);
  }

  // wait connects again after that time, unless something is heard before.
  wait(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.source ? this.failed() : this.connect()), ms);
  }

  disconnect() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.disconnect();
  }
}
