(function (s) {
  var root = s.closest('.ab-lab');
  if (!root || root.abLab) return;
  root.abLab = true;
  function mark() {
    var status = root.querySelectorAll('.ab-lab-status .widget-html-content');
    root.setAttribute('role', 'region'); root.setAttribute('aria-label', 'Prompt lab');
    root.querySelectorAll('.ab-lab-bar').forEach(function (bar) {
      var inner = bar.querySelector('.progress');
      if (inner && !inner.hasAttribute('aria-hidden')) inner.setAttribute('aria-hidden', 'true');
    });
    status.forEach(function (line) { line.setAttribute('role', 'status'); line.setAttribute('aria-live', 'polite'); });
    return status.length > 2;
  }
  if (!mark()) {
    var seen = new MutationObserver(function () { if (mark()) seen.disconnect(); });
    seen.observe(root, {childList: true, subtree: true});
  }
  var pressed = null;
  function usable(button) { return button && !button.disabled && button.offsetParent; }
  root.addEventListener('click', function (e) {
    var button = e.target.closest && e.target.closest('button.ab-main, button.ab-other, button.ab-stop');
    if (button) pressed = button.matches('.ab-stop') ? root.querySelector('.ab-lab-run button.ab-main') : button;
  });
  new MutationObserver(function () {
    if (pressed && document.activeElement !== document.body) { if (usable(pressed)) pressed = null; }
    else if (usable(pressed)) { pressed.focus({preventScroll: true}); pressed = null; }
  }).observe(root, {subtree: true, attributes: true, attributeFilter: ['disabled', 'class']});
})(this)
