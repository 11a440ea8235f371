/*
What a panel can only do in the browser: which key sends, what can be copied, which part
is what to a screen reader. Where a page forbids inline handlers, the widgets' own
buttons still work, and the buttons that need this script stay hidden.

It runs once per view, as the `onload` attribute of the panel's style element (`this`),
so it must contain no double quotes and no line comments. Events are delegated from the
panel's root because the views of its parts come and go. Roles are set once their
elements exist.
*/
(function (s) {
  var root = s.closest('.ab-chat');
  if (!root || root.abHooked) return;
  root.abHooked = true;
  root.classList.add('ab-hooked');
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  function find(name) { return root.querySelector(name); }
  function box() { return find('.ab-input textarea'); }
  function focus() {
    var input = box();
    if (input && !input.disabled) setTimeout(function () { input.focus({preventScroll: true}); }, 0);
  }
  function copy(text, button) {
    function say(word) {
      button.textContent = word;
      setTimeout(function () { button.textContent = 'Copy'; }, 1500);
    }
    function plainly() {
      var area = document.createElement('textarea'), done = false;
      area.value = text;
      area.setAttribute('aria-hidden', 'true');
      area.style.cssText = 'position: fixed; top: 0; opacity: 0';
      document.body.appendChild(area);
      area.select();
      try { done = document.execCommand('copy'); } catch (e) { done = false; }
      area.remove();
      button.focus({preventScroll: true});
      say(done ? 'Copied' : 'Not copied');
    }
    if (navigator.clipboard && window.isSecureContext) {
      navigator.clipboard.writeText(text).then(function () { say('Copied'); }, plainly);
    } else plainly();
  }
  function source(button) {
    var code = button.closest('.ab-code'), asked = button.closest('.ab-me');
    if (code) return code.querySelector('pre').textContent;
    return asked ? asked.querySelector('.ab-said').textContent : button.getAttribute('data-text');
  }
  function explain(e) {
    var button = e.target.closest && e.target.closest('.ab-act');
    if (!button || button.title) return;
    var what = button.closest('.ab-code') ? 'code' : 'message';
    button.title = button.matches('.ab-copy') ? 'Copy this ' + what :
      'Edit and send again: a new message, as the platform has no way to change one';
  }
  root.addEventListener('pointerover', explain);
  root.addEventListener('focusin', explain);
  root.addEventListener('keydown', function (e) {
    if (e.key === 'Escape') {
      var stop = find('button.ab-stop');
      if (stop && stop.offsetParent && !e.isComposing) { e.preventDefault(); e.stopPropagation(); stop.click(); }
      return;
    }
    if (!e.target.matches || !e.target.matches('.ab-input textarea')) return;
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
      e.preventDefault(); e.stopPropagation();
      var send = find('button.ab-send');
      if (send && !send.disabled && e.target.value.trim()) {
        e.target.dispatchEvent(new Event('change', {bubbles: true}));
        send.click();
      }
    }
  }, true);
  root.addEventListener('click', function (e) {
    var button = e.target.closest && e.target.closest('button'), input = box(), log = find('.ab-log');
    if (!button) return;
    if (button.matches('.ab-copy')) copy(source(button), button);
    else if (button.matches('.ab-edit') && input && !input.disabled) {
      input.value = source(button);
      input.dispatchEvent(new Event('change', {bubbles: true}));
      focus();
    }
    else if (button.matches('.ab-send')) { if (log) log.scrollTop = 0; focus(); }
    else if (button.matches('.ab-stop, .ab-retry, .ab-new')) focus();
  });
  function mark() {
    var log = find('.ab-log'), status = find('.ab-status .widget-html-content'), input = box();
    if (!log || !status || !input) return false;
    root.setAttribute('role', 'region'); root.setAttribute('aria-label', 'Chat');
    log.setAttribute('role', 'log'); log.setAttribute('aria-live', 'off'); log.setAttribute('aria-label', 'Conversation');
    log.setAttribute('tabindex', '0');
    status.setAttribute('role', 'status'); status.setAttribute('aria-live', 'polite');
    input.setAttribute('aria-label', 'Message');
    return true;
  }
  if (!mark()) {
    var seen = new MutationObserver(function () { if (mark()) seen.disconnect(); });
    seen.observe(root, {childList: true, subtree: true});
  }
})(this)
