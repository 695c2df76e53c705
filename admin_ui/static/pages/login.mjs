import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { Icon, Logo } from "../components/bits.mjs";
import { login } from "../lib/api.mjs";
import { param } from "../lib/location.mjs";

export function Login({ onLogin }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [wait, setWait] = useState(0);
  const user = useRef(null);
  const password = useRef(null);
  useEffect(() => user.current.focus(), []);
  useEffect(() => {
    if (wait <= 0) return undefined;
    const timer = setTimeout(() => setWait(wait - 1), 1000);
    return () => clearTimeout(timer);
  }, [wait]);

  const submit = async (event) => {
    event.preventDefault();
    if (busy || wait > 0) return;
    setBusy(true);
    setError(null);
    try {
      onLogin(await login(user.current.value, password.current.value));
    } catch (failure) {
      setError(failure);
      setWait(Math.ceil(failure.wait));
      setBusy(false);
      password.current.select();
    }
  };
  return html`<main id="main" class="login">
    <form class="card login-card" onSubmit=${submit} aria-labelledby="login-title">
      <div class="login-brand"><${Logo} /><h1 id="login-title">amqp-router</h1></div>
      <label>User<input ref=${user} name="username" autocomplete="username" autocapitalize="none" spellcheck="false" required /></label>
      <label>Password<input ref=${password} name="password" type="password" autocomplete="current-password" required /></label>
      <div class="login-problem" role="alert">
        ${error
          ? html`<p class="problem"><${Icon} name="alert" />${explain(error, wait)}</p>`
          : param("ended") && html`<p>The session has ended. Please log in again.</p>`}
      </div>
      <button type="submit" class="primary" disabled=${busy || wait > 0}>${wait > 0 ? `Wait ${wait} s` : "Log in"}</button>
      <p class="hint">A new broker has the user <code>guest</code> with the password <code>guest</code>, who can log in from this machine only.</p>
    </form>
  </main>`;
}

function explain(error, wait) {
  if (error.status === 429) return wait > 0 ? "Too many attempts that failed." : "You may try again now.";
  if (error.status === 401 && error.message === "Login failed") return "User or password is wrong.";
  return error.message;
}
