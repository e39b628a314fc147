import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export function useWidth<Kind extends HTMLElement>(): readonly [RefObject<Kind | null>, number] {
  const box = useRef<Kind>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const look = () => setWidth(box.current?.clientWidth ?? 0);
    look();
    const watch = new ResizeObserver(look);
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}
